"""Captures PyTorch models as Plimsoll graphs, without weights and without a GPU.

:func:`capture` does it; ``python -m plimsoll_gpu.capture --help`` is the command line, and
``python -m plimsoll_gpu.zoo --help`` captures whole model libraries.

How a capture works, one file a step:

* ``models`` builds a model by name on the meta device, where tensors have shapes but no storage; ``huggingface`` and
  ``detection`` know more of two kinds of them;
* ``inputs`` finds the tensors among the arguments of its forward pass;
* ``record`` runs the forward pass and writes down every ATen operator as a node, ``modules`` names the nodes;
* ``composites`` and ``autocast`` let operators be as on a GPU where the meta device differs; ``quick`` saves time;
* ``constants`` works out what follows from shapes alone, ``choices`` decides what does not;
* ``operators`` translates ATen's operators to those of the graph format;
* ``tidy`` removes what the forward pass does not need, such as views around a matrix product;
* ``batch`` compares two captures and makes the batch symbolic;
* ``graph`` is the graph itself, its check and its JSON form.

``steps`` records what a training step of a captured model allocates and frees: ``storages`` follows tensors through
it, ``cuda_kernels`` does what a GPU's kernels do where the meta device shows something else, ``step_events`` writes it
down for a graph file.
"""

from plimsoll_gpu.capture import CaptureError, CaptureWarning, capture, to_text

__all__ = ["CaptureError", "CaptureWarning", "capture", "to_text"]
