"""Removes from a recorded graph what says nothing about the forward pass."""

from __future__ import annotations

from collections import defaultdict

from plimsoll_gpu.graph import Graph, Node


def tidy(graph: Graph) -> None:
    """Drops what nothing reads, takes views off linear layers and joins views of views."""
    _drop_unread(graph)
    _take_views_off_linears(graph)
    _join_views(graph)
    _drop_unread_statistics(graph)


def _readers(graph: Graph) -> dict[str, list[Node]]:
    """The nodes that read each tensor; the graph's outputs count as read by nobody known."""
    readers: dict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        for name in node.inputs:
            readers[name].append(node)
    return readers


def _drop_unread(graph: Graph) -> None:
    """Drops nodes whose results nothing reads: what autograd keeps for itself, and checks of arguments."""
    wanted = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        overwrites = node.attributes.get("inplace", False) or node.op.endswith("_")
        if overwrites or not wanted.isdisjoint(tensor.name for tensor in node.outputs):
            wanted.update(node.inputs)
            kept.append(node)
    graph.nodes = kept[::-1]


def _only_reader(name: str, readers: dict[str, list[Node]], graph: Graph) -> Node | None:
    found = readers[name]
    return found[0] if len(found) == 1 and name not in graph.outputs else None


def _take_views_off_linears(graph: Graph) -> None:
    """Undoes the flattening of leading dimensions that PyTorch puts around a linear layer's product."""
    readers = _readers(graph)
    writers = {tensor.name: node for node in graph.nodes for tensor in node.outputs}
    shapes = {tensor.name: tensor.shape for tensor in graph.inputs}
    shapes |= {tensor.name: tensor.shape for node in graph.nodes for tensor in node.outputs}
    dropped = set()
    for node in graph.nodes:
        if node.op != "linear":
            continue
        before = writers.get(node.inputs[0])
        after = _only_reader(node.outputs[0].name, readers, graph)
        if before is None or after is None or before.op != "view" or after.op != "view":
            continue
        source, target = shapes[before.inputs[0]], after.outputs[0]
        is_flattening = source[-1:] == before.outputs[0].shape[-1:]
        is_undone = source[:-1] == target.shape[:-1] and target.shape[-1:] == node.outputs[0].shape[-1:]
        if not (is_flattening and is_undone):
            continue
        node.inputs[0] = before.inputs[0]
        node.outputs = [target]
        readers[before.outputs[0].name].remove(node)
        readers[before.inputs[0]].append(node)
        dropped.add(after.name)
        if not readers[before.outputs[0].name] and before.outputs[0].name not in graph.outputs:
            dropped.add(before.name)
            readers[before.inputs[0]].remove(before)
    graph.nodes = [node for node in graph.nodes if node.name not in dropped]
    _name_after_nodes(graph)


def _join_views(graph: Graph) -> None:
    """Makes one view of a view that only another view reads."""
    readers = _readers(graph)
    writers = {tensor.name: node for node in graph.nodes for tensor in node.outputs}
    dropped = set()
    for node in graph.nodes:
        if node.op != "view" or not node.inputs:
            continue
        before = writers.get(node.inputs[0])
        if before is None or before.op != "view" or len(before.outputs) > 1:
            continue
        if _only_reader(before.outputs[0].name, readers, graph) is node:
            node.inputs = before.inputs
            node.weights = before.weights
            dropped.add(before.name)
    graph.nodes = [node for node in graph.nodes if node.name not in dropped]


def _drop_unread_statistics(graph: Graph) -> None:
    """Drops further outputs of known operators (means, masks, indices) that nothing reads.

    What an operator keeps for its backward pass follows from the operator.
    """
    readers = _readers(graph)
    for node in graph.nodes:
        if node.op in KNOWN_BY_FIRST_OUTPUT:
            node.outputs = [
                tensor
                for index, tensor in enumerate(node.outputs)
                if index == 0 or readers[tensor.name] or tensor.name in graph.outputs
            ]


KNOWN_BY_FIRST_OUTPUT = frozenset(
    "attention batch_norm dropout group_norm instance_norm layer_norm pool recurrent rms_norm".split()
)
"""Operators whose first output is the result."""


def _name_after_nodes(graph: Graph) -> None:
    """Names tensors after the nodes that now write them."""
    renamed = {}
    for node in graph.nodes:
        for index, tensor in enumerate(node.outputs):
            name = f"{node.name}:{index}" if index else node.name
            renamed[tensor.name] = name
            tensor.name = name
    for node in graph.nodes:
        node.inputs = [renamed.get(name, name) for name in node.inputs]
    graph.outputs = [renamed.get(name, name) for name in graph.outputs]
