"""What a capture takes for granted where a forward pass looks at values that nobody knows.

A branch goes one way: checks pass (``all`` holds, ``any`` does not), any other question is answered with no. Where the
number of results depends on values, the most that there can be are taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

aten = torch.ops.aten

Run = Callable[..., Any]
"""Runs an operator as part of the capture."""

Known = Callable[[torch.Tensor], torch.Tensor | None]
"""Looks up the value of a tensor."""


class Choices:
    """Answers to what is not known."""

    def __init__(self) -> None:
        self._askers = WeakTensorKeyDictionary()

    def follow(self, func: Any, result: Any) -> None:
        """Notes what a truth value says."""
        if isinstance(result, torch.Tensor) and result.dtype == torch.bool and result.numel() == 1:
            self._askers[result] = func._schema.name.split("::")[1]

    def answer(self, tensor: torch.Tensor) -> bool | None:
        """The truth value to go on with; ``None`` for a number, which cannot be guessed."""
        return self._askers.get(tensor) == "all" if tensor.dtype == torch.bool else None


def _count(mask: torch.Tensor, value: torch.Tensor | None) -> int:
    return mask.numel() if value is None else int(value.count_nonzero())


def nonzero(known: Known, mask: torch.Tensor) -> torch.Tensor:
    """Where a mask is set: everywhere, unless its values are known."""
    return mask.new_empty((_count(mask, known(mask)), mask.dim()), dtype=torch.int64)


def masked_select(known: Known, input: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The elements under a mask: all, unless its values are known."""
    shape = torch.broadcast_shapes(input.shape, mask.shape)
    value = known(mask)
    count = shape.numel() if value is None else int(value.expand(shape).count_nonzero())
    return input.new_empty(count)


def unique(known: Known, input: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
    """Distinct elements: all."""
    indices = input.new_empty(input.shape, dtype=torch.int64)
    return input.new_empty(input.numel()), indices, input.new_empty(input.numel(), dtype=torch.int64)


def nms(known: Known, boxes: torch.Tensor, *args: Any) -> torch.Tensor:
    """Boxes that no better one overlaps: all."""
    return boxes.new_empty(len(boxes), dtype=torch.int64)


def without_masks(run: Run, indices: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Indices of which masks have become positions first, as on a GPU."""
    positions: list[torch.Tensor | None] = []
    for part in indices:
        if part is not None and part.dtype in (torch.bool, torch.uint8):
            positions += run(aten.unbind.int, run(aten.nonzero.default, part), 1)
        else:
            positions.append(part)
    return positions


AT_MOST: dict[str, Callable[..., Any]] = {
    "aten::nonzero": nonzero,
    "aten::masked_select": masked_select,
    "aten::_unique2": unique,
    "aten::unique_consecutive": unique,
    "torchvision::nms": nms,
}
"""Operators whose results are as many as values say. Each takes a way to look up values, then the arguments."""
