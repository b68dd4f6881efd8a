"""Follows the storages of tensors through a training step."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lowering_traces.cuda import CONTIGUOUS_GRADIENT, STAND_INS, is_summed_in_place, kernels_of_cuda, run_composite
from plimsoll_gpu.composites import whole_composites
from plimsoll_gpu.constants import Constants


@dataclass
class Trace:
    """Storages that come and go: positive bytes for one that is made, negative for one that is freed."""

    forward: list[int] = field(default_factory=list)
    """From the batch's arrival to the loss."""
    backward: list[int] = field(default_factory=list)
    """Up to the last gradient."""
    operators: list[str] = field(default_factory=list)
    """For each entry of both, the operator that ran; for people who look for a difference."""

    @property
    def saved(self) -> int:
        """Bytes alive between forward and backward pass."""
        return sum(self.forward)

    @property
    def peak(self) -> int:
        """The most bytes alive at once."""
        live = most = 0
        for change in self.forward + self.backward:
            live += change
            most = max(most, live)
        return most


class _Storages(TorchDispatchMode):
    """Writes every new storage, and the end of each, into a list."""

    def __init__(self, weights: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.changes: list[int] = []
        self.operators: list[str] = []
        self._operator = "input"
        self._constants = Constants()
        self._known = {_key(weight) for weight in weights}
        self._device = weights[0].device

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self._operator = str(func)
        kwargs = kwargs or {}
        if func is torch.ops.aten._local_scalar_dense.default:
            value = self._constants.value(args[0])
            assert value is not None, "the model could be captured, so what it reads is known"
            return value.item()
        if is_summed_in_place(func, args):
            return args[0]
        if func in CONTIGUOUS_GRADIENT and not args[0].is_contiguous():
            copy = self._empty(args[0].shape, args[0])
            args = (copy, *args[1:])
        stand_in = STAND_INS.get(func)
        result = func(*args, **kwargs) if stand_in is None else stand_in(self._empty, *args, **kwargs)
        self._constants.follow(func, args, kwargs, result)
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.device == self._device:
                self.see(leaf)
        return result

    def _empty(self, shape: Sequence[int], like: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
        tensor = torch.empty(shape, dtype=dtype or like.dtype, device=like.device)
        self.see(tensor)
        return tensor

    def see(self, tensor: torch.Tensor) -> None:
        """Notes a tensor's storage if it is new."""
        for part in (tensor._indices(), tensor._values()) if tensor.is_sparse else (tensor,):
            key, storage = _key(part), part.untyped_storage()
            if key in self._known or storage.nbytes() == 0:
                continue
            self._known.add(key)
            self._change(storage.nbytes())
            weakref.finalize(storage, self._gone, key, storage.nbytes()).atexit = False

    def _gone(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._change(-size)

    def _change(self, size: int) -> None:
        self.changes.append(size)
        self.operators.append(self._operator)


def _key(tensor: torch.Tensor) -> int:
    key: int = tensor.untyped_storage()._cdata
    return key


Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def trace_step(
    model: nn.Module, inputs: Sequence[torch.Tensor], target: torch.Tensor, loss: Loss, mixed: bool = False
) -> Trace:
    """The storages of one forward pass, loss and backward pass of a model in training mode.

    On the meta device, or, under autocast, which has no rules for it, on the CPU.

    The loop holds its batch, the model's output and the loss until the end, as training loops do.

    Args:
        model: The model; its gradients must be unset.
        inputs: What its ``forward`` takes; only shapes and types count.
        target: What ``loss`` takes beside the output.
        loss: Makes a number of output and target.
        mixed: Whether forward pass and loss run under autocast with bf16.
    """
    model.train()
    storages = _Storages([*model.parameters(), *model.buffers()])
    gc.collect()
    gc.disable()
    try:
        with whole_composites(run_composite), kernels_of_cuda(), storages:
            batch = [torch.empty_like(tensor) for tensor in inputs]
            wanted = torch.zeros_like(target)
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                output = model(*batch)
                value = loss(output, wanted)
            trace = Trace(forward=list(storages.changes))
            value.backward()
            trace.backward = storages.changes[len(trace.forward) :]
            trace.operators = list(storages.operators)
    finally:
        gc.enable()
    for parameter in model.parameters():
        parameter.grad = None
    return trace
