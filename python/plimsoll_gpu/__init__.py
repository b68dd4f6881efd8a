"""Captures PyTorch models as Plimsoll graphs, without weights and without a GPU.

:func:`plimsoll_gpu.capture.capture` does it; ``python -m plimsoll_gpu.capture --help`` is the command line.

How a capture works, one file a step:

* ``models`` builds a model by name on the meta device, where tensors have shapes but no storage;
* ``record`` runs its forward pass and writes down every ATen operator as a node;
* ``composites`` keeps operators whole that a GPU runs whole but the meta device takes apart;
* ``operators`` translates ATen's operators to those of the graph format;
* ``tidy`` removes what the forward pass does not need, such as views around a matrix product;
* ``batch`` compares two captures and makes the batch symbolic;
* ``graph`` is the graph itself, its check and its JSON form.
"""
