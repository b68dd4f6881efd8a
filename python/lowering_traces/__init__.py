"""Records what real PyTorch allocates in a training step, for holding the simulator's lowering rules against it."""
