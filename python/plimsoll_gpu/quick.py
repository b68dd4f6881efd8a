"""Shapes of the commonest operators' results.

PyTorch works them out by running reference implementations in Python, which takes most of a capture's time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def result_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an operator returns for meta tensors."""
    rule = RULES.get(func)
    result = rule(*args, **kwargs) if rule is not None else None
    return func(*args, **kwargs) if result is None else result


def _elementwise(first: Any, second: Any, **rest: Any) -> torch.Tensor | None:
    """Of two operands alike in shape, order and type, or of one and a number that does not change its type."""
    return torch.empty_like(first) if _is_plain(first) and _keeps(first, second) else None


def _overwriting(first: Any, second: Any, **rest: Any) -> torch.Tensor | None:
    return first if _is_plain(first) and _keeps(first, second) else None


def _is_plain(tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.device.type == "meta" and tensor.is_floating_point()


def _keeps(first: torch.Tensor, second: Any) -> bool:
    if isinstance(second, (int, float)):
        return first.is_contiguous()
    is_alike: bool = (
        first.shape == second.shape
        and first.dtype == second.dtype
        and first.device == second.device
        and first.is_contiguous()
        and second.is_contiguous()
    )
    return is_alike


def _one(input: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor | None:
    return torch.empty_like(input) if _is_plain(input) and input.is_contiguous() else None


def _one_overwritten(input: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor | None:
    return input if _is_plain(input) else None


def _batch_norm(
    input: torch.Tensor, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, *rest: Any
) -> tuple[torch.Tensor, ...] | None:
    if not (_is_plain(input) and training):
        return None
    statistics = (input.new_empty(input.shape[1], dtype=_wide(input)) for _ in range(2))
    return torch.empty_like(input), *statistics


def _wide(input: torch.Tensor) -> torch.dtype:
    return input.dtype if input.dtype == torch.float64 else torch.float32


BINARY = (aten.add, aten.sub, aten.mul, aten.div)
BINARY_INPLACE = (aten.add_, aten.sub_, aten.mul_, aten.div_)
UNARY = (aten.relu, aten.gelu, aten.silu, aten.sigmoid, aten.tanh, aten.hardswish, aten.hardsigmoid, aten.hardtanh)
UNARY_INPLACE = (aten.relu_, aten.silu_, aten.sigmoid_, aten.hardswish_, aten.hardsigmoid_, aten.hardtanh_)

RULES: dict[Any, Callable[..., Any]] = {
    **{operator.Tensor: _elementwise for operator in BINARY},
    **{operator.Tensor: _overwriting for operator in BINARY_INPLACE},
    **{operator.default: _one for operator in UNARY},
    **{operator.default: _one_overwritten for operator in UNARY_INPLACE},
    aten.native_batch_norm.default: _batch_norm,
}
"""Rules by operator; ``None`` means that PyTorch must work it out."""
