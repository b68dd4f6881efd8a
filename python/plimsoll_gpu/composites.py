"""Operators that a GPU runs as one kernel, but that PyTorch takes apart on the meta device.

They are intercepted at the dispatcher, so it does not matter from which Python function they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from plimsoll_gpu.operators import Operation

aten = torch.ops.aten

Run = Callable[[Any, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Runs the body of an operator, given the operator, the body and its arguments, as one node."""


@contextmanager
def whole_composites(run: Run) -> Iterator[None]:
    """Hands every call of a composite operator on the meta device to ``run`` while it lasts."""
    with torch.library._scoped_library("aten", "IMPL") as library:
        for func in DECOMPOSED:
            _intercept(library, func, run, func.decompose)
        for func in (aten.dropout.default, aten.dropout_.default):
            _intercept(library, func, run, func.decompose, _drops)
        attention = aten.scaled_dot_product_attention.default
        _intercept(library, attention, run, _fused_attention, _is_fused)
        library.impl("linear", _linear, "AutogradMeta")
        yield


DECOMPOSED = (
    aten.adaptive_avg_pool1d.default,
    aten.adaptive_avg_pool2d.default,
    aten.adaptive_avg_pool3d.default,
    aten.instance_norm.default,
    aten.rms_norm.default,
    aten.lstm.input,
    aten.gru.input,
    aten.rnn_relu.input,
    aten.rnn_tanh.input,
)
"""Composites whose parts, run unseen, give the right result."""


def _drop_path(module: nn.Module) -> Operation:
    return Operation("stochastic_depth", {"p": getattr(module, "drop_prob", None) or getattr(module, "p", 0.0)})


def composite_module(module: nn.Module) -> Operation | None:
    """The operator of the graph format that a whole module is, if it is one.

    Stochastic depth is called ``StochasticDepth`` in torchvision, ``DropPath`` in timm and ``...DropPath`` in
    transformers.
    """
    is_depth = type(module).__name__.endswith(("DropPath", "StochasticDepth"))
    return _drop_path(module) if is_depth else None


def _linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """A linear layer. On strided input of more than two dimensions CUDA adds the bias in place, to a product."""
    if bias is None or input.dim() == 2 or input.is_contiguous():
        result: torch.Tensor = aten.linear.default.decompose(input, weight, bias)
        return result
    return torch.matmul(input, weight.t()).add_(bias)


def _intercept(
    library: torch.library.Library,
    func: Any,
    run: Run,
    body: Callable[..., Any],
    applies: Callable[..., bool] = lambda *args, **kwargs: True,
) -> None:
    """Hands calls of one operator to ``run``, those to which ``applies`` says yes."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return run(func, body, args, kwargs) if applies(*args, **kwargs) else func.decompose(*args, **kwargs)

    overload = func._schema.overload_name
    library.impl(func._schema.name + (f".{overload}" if overload else ""), call, "AutogradMeta")


def _drops(input: torch.Tensor, p: float, train: bool) -> bool:
    """Whether a dropout does anything."""
    return train and p > 0


def _is_fused(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    *args: Any,
    **kwargs: Any,
) -> bool:
    """Whether CUDA has a fused kernel: rows aligned to 16 bytes, and heads of keys shared by whole groups at most.

    Groups have one in 16 bits only. That is how models with groups are trained; the graph does not know.
    """
    return (
        query.dim() == 4
        and key.shape[1] == value.shape[1]
        and query.shape[1] % key.shape[1] == 0
        and query.shape[3] * query.element_size() % 16 == 0
        and value.shape[3] * value.element_size() % 16 == 0
    )


def _fused_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Attention as the memory-efficient kernel runs it, which needs the mask as a full bias."""
    bias = attn_mask
    if bias is not None:
        if bias.dtype == torch.bool:
            bias = torch.zeros_like(bias, dtype=query.dtype)
        columns = bias.shape[-1]
        if columns % 16 != 0:  # Rows of a bias are aligned in a copy.
            bias = nn.functional.pad(bias, (0, -columns % 16))[..., :columns]
        bias = bias.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    result = aten._scaled_dot_product_efficient_attention(
        query, key, value, bias, torch.is_grad_enabled(), dropout_p, is_causal, scale=scale
    )
    output: torch.Tensor = result[0]
    return output
