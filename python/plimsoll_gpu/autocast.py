"""Lets autocast regions inside a forward pass cast as they do on a GPU; PyTorch has none on the meta device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map
from torch.utils.weak import WeakTensorKeyDictionary

Dtype = torch.dtype

NARROW = frozenset(
    "__matmul__ __rmatmul__ addbmm addmm addmv baddbmm bmm chain_matmul conv1d conv2d conv3d conv_transpose1d "
    "conv_transpose2d conv_transpose3d einsum gru linear lstm matmul mm multi_head_attention_forward mv prelu "
    "scaled_dot_product_attention".split()
)
"""Functions whose operands become the region's type."""

WIDE = frozenset(
    "__pow__ __rpow__ binary_cross_entropy_with_logits cdist cosine_embedding_loss cosine_similarity cross_entropy "
    "cumprod cumsum exp expm1 group_norm kl_div l1_loss layer_norm log log10 log1p log2 log_softmax mse_loss nll_loss "
    "norm normalize pow prod reciprocal rsqrt smooth_l1_loss softmax softmin softplus sum".split()
)
"""Functions whose operands become 32 bits wide."""


class _Casts(TorchFunctionMode):
    """Casts operands by the innermost region."""

    def __init__(self) -> None:
        super().__init__()
        self.regions: list[Dtype | None] = []
        self._weights = WeakTensorKeyDictionary()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        dtype, name = self.regions[-1], getattr(func, "__name__", "")
        if dtype is not None and name in NARROW:
            args, kwargs = tree_map(lambda leaf: self._narrow(leaf, dtype), (args, kwargs))
        elif dtype is not None and name in WIDE:
            args, kwargs = tree_map(_widen, (args, kwargs))
        return func(*args, **(kwargs or {}))

    def _narrow(self, leaf: Any, dtype: Dtype) -> Any:
        if not _is_float(leaf) or leaf.dtype in (dtype, torch.float64):
            return leaf
        if not (leaf.is_leaf and leaf.requires_grad):
            return leaf.to(dtype)
        # Weights are cast once and kept until the outermost region ends.
        if leaf not in self._weights or self._weights[leaf].dtype != dtype:
            self._weights[leaf] = leaf.to(dtype)
        return self._weights[leaf]

    def enter(self, dtype: Dtype | None) -> None:
        """Begins a region; ``None`` casts nothing."""
        self.regions.append(dtype)
        if len(self.regions) == 1:
            self.__enter__()

    def leave(self, *exception: Any) -> None:
        """Ends the innermost region."""
        self.regions.pop()
        if not self.regions:
            self._weights = WeakTensorKeyDictionary()
            self.__exit__(*exception)


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point()


def _widen(leaf: Any) -> Any:
    return leaf.float() if _is_float(leaf) and leaf.dtype in (torch.float16, torch.bfloat16) else leaf


@contextmanager
def autocast_on_meta() -> Iterator[None]:
    """Makes regions of autocast, whatever their device, count for meta tensors while it lasts."""
    casts = _Casts()
    kept: dict[str, Callable[..., Any]] = {
        name: getattr(torch.autocast, name) for name in ("__init__", "__enter__", "__exit__")
    }

    def begin(
        region: Any, device_type: str, dtype: Dtype | None = None, enabled: bool = True, *rest: Any, **options: Any
    ) -> None:
        region.device = device_type
        region.fast_dtype = dtype or (torch.bfloat16 if device_type == "cpu" else torch.float16)
        region._enabled = enabled

    def enter(region: Any) -> Any:
        casts.enter(region.fast_dtype if region._enabled else None)
        return region

    def leave(region: Any, *exception: Any) -> None:
        casts.leave(*exception)

    replaced = {"__init__": begin, "__enter__": enter, "__exit__": leave}
    try:
        for name, function in replaced.items():
            setattr(torch.autocast, name, function)
        yield
    finally:
        for name, function in kept.items():
            setattr(torch.autocast, name, function)
