"""Makes the batch symbolic, from two captures at different batch sizes."""

from __future__ import annotations

from itertools import zip_longest

from plimsoll_gpu.graph import CaptureError, Dim, Graph, Node, Tensor

FIRST, SECOND = 251, 127
"""Batch sizes of the two captures: primes, and unlike any extent that a model is likely to have."""


def with_symbolic_batch(first: Graph, second: Graph) -> Graph:
    """The first graph with ``"batch"`` and ``"N*batch"`` for the extents that grow with the batch.

    Args:
        first: A capture at batch ``FIRST``.
        second: The same model at batch ``SECOND``.

    Raises:
        CaptureError: The captures differ in more than the batch, or an extent is neither fixed nor a multiple
            of the batch.
    """
    for one, other in zip(first.inputs, second.inputs, strict=True):
        _unify(one, other)
    for node, twin in zip_longest(first.nodes, second.nodes):
        if node is None or twin is None:
            extra = node or twin
            raise CaptureError(f"node `{extra.name}` runs at one batch size only (tried {FIRST} and {SECOND})")
        _fold_groups(node, twin)
        for part in ("name", "op", "attributes", "inputs", "weights"):
            one, other = getattr(node, part), getattr(twin, part)
            if one != other:
                raise CaptureError(
                    f"node `{node.name}`: {part} depend on the batch: {one} at {FIRST}, {other} at {SECOND}"
                )
        if len(node.outputs) != len(twin.outputs):
            raise CaptureError(f"node `{node.name}`: the number of outputs depends on the batch")
        for one, other in zip(node.outputs, twin.outputs, strict=True):
            _unify(one, other)
    return first


def _fold_groups(node: Node, twin: Node) -> None:
    """Counts groups of one sample where a convolution has a group, and so a kernel, for each."""
    groups, others = (part.attributes.get("groups", 1) for part in (node, twin))
    if groups != others and groups % FIRST == 0 and others % SECOND == 0:
        for part, batch in ((node, FIRST), (twin, SECOND)):
            part.attributes = part.attributes | {"groups": part.attributes["groups"] // batch}


def _unify(tensor: Tensor, twin: Tensor) -> None:
    if len(tensor.shape) != len(twin.shape):
        raise CaptureError(f"tensor `{tensor.name}`: the number of dimensions depends on the batch")
    tensor.shape = [_dim(tensor.name, *extents) for extents in zip(tensor.shape, twin.shape, strict=True)]


def _dim(name: str, first: Dim, second: Dim) -> Dim:
    if first == second:
        return first
    assert isinstance(first, int) and isinstance(second, int), "only captures at a given batch are compared"
    factor, rest = divmod(first, FIRST)
    if rest or second != factor * SECOND:
        raise CaptureError(
            f"tensor `{name}`: an extent is {first} at batch {FIRST} and {second} at batch {SECOND}, "
            "which is neither fixed nor a multiple of the batch"
        )
    return "batch" if factor == 1 else f"{factor}*batch"
