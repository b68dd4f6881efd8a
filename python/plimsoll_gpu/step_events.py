"""The events of a training step, and the record that a graph file keeps of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plimsoll_gpu.batch import BATCHES
from plimsoll_gpu.graph import CaptureError, Json

FIRST, SECOND = BATCHES

ALLOCATE, FREE, NODE, ACCUMULATE, CONVOLVE, MULTIPLY, SUM, HOLD, ZERO_GRAD, LOSS, BACKWARD, SCATTER = range(12)
"""What happens. In a file each event is a list: its code and what belongs to it (``docs/graph-format.md``)."""

SIZED = frozenset({ALLOCATE, SUM, SCATTER})
"""Events of sizes, which depend on the batch."""

FORWARD, DATA_GRADIENT, FILTER_GRADIENT = range(3)
"""Products of a convolution."""

Event = tuple[Any, ...]
"""A code and what belongs to it; sizes in numbers, nodes and weights by name."""


@dataclass
class Steps:
    """The same step at both batch sizes."""

    first: list[Event]
    """At batch ``FIRST``."""
    second: list[Event]
    """At batch ``SECOND``."""


@dataclass
class _Sizes:
    """Distinct sizes, ``fixed + per_sample * batch`` each."""

    places: dict[tuple[int, int], int] = field(default_factory=dict)
    is_exact: bool = True

    def place(self, first: int, second: int) -> int:
        """The place of a size known at both batches; one that is no such sum is rounded down."""
        per_sample, rest = divmod(first - second, FIRST - SECOND)
        fixed = first - per_sample * FIRST
        if rest or per_sample < 0 or fixed < 0:
            self.is_exact = False
            per_sample = max(per_sample, 0) if fixed >= 0 else first // FIRST
            fixed = max(first - per_sample * FIRST, 0)
        return self.places.setdefault((fixed, per_sample), len(self.places))


def encode(steps: Steps, graph: Json, precision: str, loss: str) -> Json:
    """The record of a step as it stands in a graph file.

    Args:
        steps: The step.
        graph: The graph whose nodes and weights the record names by their place.
        precision: As training setups name it.
        loss: As training setups name it.

    Raises:
        CaptureError: The step does more at one batch than at the other, or differs from the graph.
    """
    if len(steps.first) != len(steps.second):
        raise CaptureError(f"a step has {len(steps.first)} events at {FIRST}, {len(steps.second)} at {SECOND}")
    sizes = _Sizes()
    nodes = {node["name"]: place for place, node in enumerate(graph["nodes"])}
    convolutions = {node["name"] for node in graph["nodes"] if node["op"] == "conv"}
    weights = {weight["name"]: place for place, weight in enumerate(graph["weights"])}
    events: list[list[int]] = []
    node: str | None = None
    following = _following_nodes(steps.first, nodes)
    for index, (one, other) in enumerate(zip(steps.first, steps.second, strict=True)):
        code = one[0]
        if code != other[0] or (code not in SIZED and one != other):
            raise CaptureError(f"event {index} of a step depends on the batch: {one} or {other}")
        if code in SIZED:
            events.append([code, *map(sizes.place, one[1:], other[1:])])
        elif code == NODE:
            node = following[index]
            events.append([code] if node is None else [code, nodes[node]])
        elif code == ACCUMULATE:
            events.append([code, one[1], weights[one[2]]])
        elif code != CONVOLVE or node in convolutions:
            events.append(list(one))
    record: Json = {"precision": precision, "loss": loss, "sizes": [list(size) for size in sizes.places]}
    return record | ({} if sizes.is_exact else {"exact": False}) | {"events": events}


def _following_nodes(events: list[Event], nodes: dict[str, int]) -> list[str | None]:
    """For the place of each event the node that a mark at it means.

    The graph leaves out what nothing reads, such as the copy that autograd takes before a tensor is overwritten: in the
    forward pass that is work of the node after it.
    """
    found: list[str | None] = []
    following: str | None = None
    for event in reversed(events):
        if event[0] in (ZERO_GRAD, LOSS, BACKWARD):
            following = None
        elif event[0] == NODE:
            following = event[1] if event[1] in nodes or event[1] is None else following
        found.append(following)
    return found[::-1]
