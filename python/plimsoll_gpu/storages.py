"""Follows the storages of tensors through a training step."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from plimsoll_gpu.constants import Constants
from plimsoll_gpu.cuda_kernels import CONTIGUOUS_GRADIENT, STAND_INS, is_summed_in_place
from plimsoll_gpu.graph import CaptureError


class Storages(TorchDispatchMode):
    """Sees every new storage on the weights' device, and the end of each; weights do not count."""

    def __init__(self, weights: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.stand_ins = dict(STAND_INS)
        """Kernels that run in the place of operators."""
        self._constants = Constants()
        self._known = {_key(weight): -1 for weight in weights}
        self._device = weights[0].device
        self._count = 0

    def made(self, size: int) -> None:
        """A storage of so many bytes was made; storages are numbered from 0."""

    def ended(self, number: int, size: int) -> None:
        """A storage is gone."""

    def starts(self, func: Any) -> None:
        """An operator is about to run."""

    def wrote(self, func: Any, args: tuple[Any, ...], results: list[torch.Tensor]) -> None:
        """An operator has run."""
        for tensor in results:
            self.see(tensor)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.starts(func)
        kwargs = kwargs or {}
        if func is torch.ops.aten._local_scalar_dense.default:
            value = self._constants.value(args[0])
            if value is None:
                raise CaptureError("the step reads a value that depends on its input")
            return value.item()
        if is_summed_in_place(func, args):
            return args[0]
        if func in CONTIGUOUS_GRADIENT and not args[0].is_contiguous():
            copy = self.empty(args[0].shape, args[0])
            args = (copy, *args[1:])
        stand_in = self.stand_ins.get(func)
        result = func(*args, **kwargs) if stand_in is None else stand_in(self.empty, *args, **kwargs)
        self._constants.follow(func, args, kwargs, result)
        self.wrote(func, args, [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)])
        return result

    def empty(self, shape: Sequence[int], like: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A new tensor, whose storage is seen."""
        tensor = torch.empty(shape, dtype=dtype or like.dtype, device=like.device)
        self.see(tensor)
        return tensor

    def number(self, tensor: torch.Tensor) -> int | None:
        """The number of a tensor's storage; none of weights and of what was not seen."""
        number = self._known.get(_key(tensor), -1)
        return None if number < 0 else number

    def see(self, tensor: torch.Tensor) -> None:
        """Notes a tensor's storage if it is new."""
        if tensor.device != self._device:
            return
        for part in (tensor._indices(), tensor._values()) if tensor.is_sparse else (tensor,):
            key, storage = _key(part), part.untyped_storage()
            if key in self._known or storage.nbytes() == 0:
                continue
            self._known[key] = self._count
            weakref.finalize(storage, self._gone, key, self._count, storage.nbytes()).atexit = False
            self._count += 1
            self.made(storage.nbytes())

    def _gone(self, key: int, number: int, size: int) -> None:
        del self._known[key]
        self.ended(number, size)


def _key(tensor: torch.Tensor) -> int:
    key: int = tensor.untyped_storage()._cdata
    return key
