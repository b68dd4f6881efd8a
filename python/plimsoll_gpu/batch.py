"""Makes the batch symbolic, from two captures at different batch sizes."""

from __future__ import annotations

from itertools import zip_longest

from plimsoll_gpu.graph import CaptureError, Dim, Graph, Node, Tensor

Batches = tuple[int, int]

BATCHES: Batches = (251, 127)
"""Batch sizes of the two captures: primes, and unlike any extent that a model is likely to have."""


def with_symbolic_batch(first: Graph, second: Graph, batches: Batches = BATCHES) -> Graph:
    """The first graph with ``"batch"`` and ``"N*batch"`` for the extents that grow with the batch.

    Args:
        first: A capture at the first batch size.
        second: The same model at the second.
        batches: The two batch sizes.

    Raises:
        CaptureError: The captures differ in more than the batch, or an extent is neither fixed nor a multiple
            of the batch.
    """
    for one, other in zip(first.inputs, second.inputs, strict=True):
        _unify(one, other, batches)
    for node, twin in zip_longest(first.nodes, second.nodes):
        if node is None or twin is None:
            extra = node or twin
            raise CaptureError(f"node `{extra.name}` runs at one batch size only of {batches[0]} and {batches[1]}")
        _fold_groups(node, twin, batches)
        for part in ("name", "op", "attributes", "inputs", "weights"):
            one, other = getattr(node, part), getattr(twin, part)
            if one != other:
                raise CaptureError(
                    f"node `{node.name}`: {part} depend on the batch: {one} at {batches[0]}, {other} at {batches[1]}"
                )
        if len(node.outputs) != len(twin.outputs):
            raise CaptureError(f"node `{node.name}`: the number of outputs depends on the batch")
        for one, other in zip(node.outputs, twin.outputs, strict=True):
            _unify(one, other, batches)
    return first


def _fold_groups(node: Node, twin: Node, batches: Batches) -> None:
    """Counts groups of one sample where a convolution has a group, and so a kernel, for each."""
    groups, others = (part.attributes.get("groups", 1) for part in (node, twin))
    if groups != others and groups % batches[0] == 0 and others % batches[1] == 0:
        for part, batch in zip((node, twin), batches, strict=True):
            part.attributes = part.attributes | {"groups": part.attributes["groups"] // batch}


def _unify(tensor: Tensor, twin: Tensor, batches: Batches) -> None:
    if len(tensor.shape) != len(twin.shape):
        raise CaptureError(f"tensor `{tensor.name}`: the number of dimensions depends on the batch")
    tensor.shape = [_dim(tensor.name, *extents, batches) for extents in zip(tensor.shape, twin.shape, strict=True)]


def _dim(name: str, first: Dim, second: Dim, batches: Batches) -> Dim:
    if first == second:
        return first
    assert isinstance(first, int) and isinstance(second, int), "only captures at a given batch are compared"
    factor, rest = divmod(first, batches[0])
    if rest or second != factor * batches[1]:
        raise CaptureError(
            f"tensor `{name}`: an extent is {first} at batch {batches[0]} and {second} at batch {batches[1]}, "
            "which is neither fixed nor a multiple of the batch"
        )
    return "batch" if factor == 1 else f"{factor}*batch"
