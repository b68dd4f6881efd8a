"""Traces what a training step allocates and frees, in bytes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from plimsoll_gpu.composites import whole_composites
from plimsoll_gpu.cuda_kernels import kernels_of_cuda, run_composite
from plimsoll_gpu.storages import Storages


@dataclass
class Trace:
    """Storages that come and go: positive bytes for one that is made, negative for one that is freed."""

    forward: list[int] = field(default_factory=list)
    """From the batch's arrival to the loss."""
    backward: list[int] = field(default_factory=list)
    """Up to the last gradient."""
    operators: list[str] = field(default_factory=list)
    """For each entry of both, the operator that ran; for people who look for a difference."""

    @property
    def saved(self) -> int:
        """Bytes alive between forward and backward pass."""
        return sum(self.forward)

    @property
    def peak(self) -> int:
        """The most bytes alive at once."""
        live = most = 0
        for change in self.forward + self.backward:
            live += change
            most = max(most, live)
        return most


class _Changes(Storages):
    """Writes every new storage, and the end of each, into a list."""

    def __init__(self, weights: Sequence[torch.Tensor]) -> None:
        super().__init__(weights)
        self.changes: list[int] = []
        self.operators: list[str] = []
        self._operator = "input"

    def starts(self, func: Any) -> None:
        self._operator = str(func)

    def made(self, size: int) -> None:
        self._change(size)

    def ended(self, number: int, size: int) -> None:
        self._change(-size)

    def _change(self, size: int) -> None:
        self.changes.append(size)
        self.operators.append(self._operator)


Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def trace_step(
    model: nn.Module, inputs: Sequence[torch.Tensor], target: torch.Tensor, loss: Loss, mixed: bool = False
) -> Trace:
    """The storages of one forward pass, loss and backward pass of a model in training mode.

    On the meta device, or, under autocast, which has no rules for it, on the CPU.

    The loop holds its batch, the model's output and the loss until the end, as training loops do.

    Args:
        model: The model; its gradients must be unset.
        inputs: What its ``forward`` takes; only shapes and types count.
        target: What ``loss`` takes beside the output.
        loss: Makes a number of output and target.
        mixed: Whether forward pass and loss run under autocast with bf16.
    """
    model.train()
    storages = _Changes([*model.parameters(), *model.buffers()])
    gc.collect()
    gc.disable()
    try:
        with whole_composites(run_composite), kernels_of_cuda(), storages:
            batch = [torch.empty_like(tensor) for tensor in inputs]
            wanted = torch.zeros_like(target)
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                output = model(*batch)
                value = loss(output, wanted)
            trace = Trace(forward=list(storages.changes))
            value.backward()
            trace.backward = storages.changes[len(trace.forward) :]
            trace.operators = list(storages.operators)
    finally:
        gc.enable()
    for parameter in model.parameters():
        parameter.grad = None
    return trace
