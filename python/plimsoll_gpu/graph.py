"""The graph: tensors, weights and nodes, as they stand in a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FORMAT_VERSION = 1
"""The value of ``plimsoll_graph`` in a file."""

Dim = int | str
"""An extent: a number, ``"batch"`` or ``"N*batch"``."""

Json = dict[str, Any]
"""A JSON object."""


class CaptureError(Exception):
    """A model that cannot be captured, or a graph that does not hold together."""


class CaptureWarning(UserWarning):
    """An assumption that a graph rests on."""


@dataclass
class Tensor:
    """An input of the graph, or what a node writes."""

    name: str
    shape: list[Dim]
    dtype: str

    def to_json(self) -> Json:
        """The tensor as it stands in a file."""
        return {"name": self.name, "shape": self.shape} | _unless(self.dtype, "float32", "dtype")


@dataclass
class Weight:
    """A parameter or buffer; the kind is ``parameter``, ``frozen`` or ``buffer``."""

    name: str
    shape: list[Dim]
    dtype: str
    kind: str

    def to_json(self) -> Json:
        """The weight as it stands in a file."""
        return (
            {"name": self.name, "shape": self.shape}
            | _unless(self.dtype, "float32", "dtype")
            | _unless(self.kind, "parameter", "kind")
        )


@dataclass
class Node:
    """One operation: what it computes, the tensors it reads and writes, the weights it uses."""

    name: str
    op: str
    attributes: Json
    inputs: list[str]
    weights: list[str]
    outputs: list[Tensor]

    def to_json(self) -> Json:
        """The node as it stands in a file."""
        return (
            {"name": self.name, "op": self.op}
            | _unless(self.attributes, {}, "attributes")
            | {"inputs": self.inputs}
            | _unless(self.weights, [], "weights")
            | {"outputs": [tensor.to_json() for tensor in self.outputs]}
        )


@dataclass
class Graph:
    """A forward computation graph; nodes stand in execution order."""

    name: str
    inputs: list[Tensor] = field(default_factory=list)
    weights: list[Weight] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    @property
    def family(self) -> str:
        """The architecture family, told from the operators."""
        ops = {node.op for node in self.nodes}
        if "recurrent" in ops:
            return "recurrent"
        if "attention" in ops or {"softmax", "mat_mul"} <= ops:
            return "transformer"
        if "conv" in ops:
            return "cnn"
        return "mlp" if "linear" in ops else "other"

    def to_json(self) -> Json:
        """The graph as it stands in a file."""
        return {
            "plimsoll_graph": FORMAT_VERSION,
            "name": self.name,
            "family": self.family,
            "inputs": [tensor.to_json() for tensor in self.inputs],
            "weights": [weight.to_json() for weight in self.weights],
            "nodes": [node.to_json() for node in self.nodes],
            "outputs": self.outputs,
        }

    def check(self) -> None:
        """Holds the graph to what readers rely on.

        Raises:
            CaptureError: A name is used twice, or something is read that was not written before.
        """
        _distinct("weight", [weight.name for weight in self.weights])
        _distinct("node", [node.name for node in self.nodes])
        weights = {weight.name for weight in self.weights}
        written = [tensor.name for tensor in self.inputs]
        _distinct("tensor", written + [tensor.name for node in self.nodes for tensor in node.outputs])
        known = set(written)
        for node in self.nodes:
            _known(f"node `{node.name}`", "tensor", node.inputs, known)
            _known(f"node `{node.name}`", "weight", node.weights, weights)
            known.update(tensor.name for tensor in node.outputs)
        _known("the graph's outputs", "tensor", self.outputs, known)


def _unless(value: Any, default: Any, key: str) -> Json:
    """An entry for a value that is not its default."""
    return {} if value == default else {key: value}


def _distinct(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise CaptureError(f"two {what}s are named `{name}`")
        seen.add(name)


def _known(reader: str, what: str, names: list[str], known: set[str]) -> None:
    for name in names:
        if name not in known:
            raise CaptureError(f"{reader}: {what} `{name}` is not known at that place")
