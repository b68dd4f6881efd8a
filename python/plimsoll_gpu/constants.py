"""Values of tensors that follow from shapes alone, such as positions and causal masks.

Meta tensors have no values, but models branch on some: on whether positions count upwards, or whether a mask hides
anything. Where a tensor depends on no input and no weight, its value is worked out beside the capture.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakTensorKeyDictionary

MAX_ELEMENTS = 1 << 20
"""Larger constants are not worked out."""


class Constants:
    """The values of constant tensors."""

    def __init__(self) -> None:
        self._values = WeakTensorKeyDictionary()

    def know(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        """Takes a tensor's value as known."""
        self._values[tensor] = value

    def value(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The value of a tensor, if it is known."""
        if tensor.device.type == "cpu":
            return tensor
        found: torch.Tensor | None = self._values.get(tensor)
        return found

    def follow(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Works out the result of an operator on constants."""
        operands = _tensors((args, kwargs))
        results = [tensor for tensor in _tensors(result) if tensor.device.type != "cpu"]
        if not results:
            return
        if any(self.value(operand) is None for operand in operands):
            if func._schema.is_mutable:
                self._forget(operands[0])
        elif _is_determined(func) and all(tensor.numel() <= MAX_ELEMENTS for tensor in results):
            args, kwargs = tree_map(self._known, (args, kwargs))
            values = _tensors(func(*args, **({**kwargs, "device": "cpu"} if "device" in kwargs else kwargs)))
            for tensor, value in zip(results, values, strict=True):
                self._values[tensor] = value

    def _known(self, leaf: Any) -> Any:
        return self.value(leaf) if isinstance(leaf, torch.Tensor) else leaf

    def _forget(self, written: torch.Tensor) -> None:
        """Forgets a tensor that was overwritten, with all others that share its storage."""
        storage = written.untyped_storage()._cdata
        for tensor in list(self._values):
            if tensor.untyped_storage()._cdata == storage:
                del self._values[tensor]


def _is_determined(func: Any) -> bool:
    name = func._schema.name.split("::")[1]
    return "empty" not in name and torch.Tag.nondeterministic_seeded not in func.tags


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
