"""Makes the small ONNX files that the reader's tests read, with both of PyTorch's exporters."""
