"""What CUDA's kernels allocate where the meta device shows something else.

Below autograd, kernels are replaced one by one. Above it, composite operators are steered to the kernels that a GPU
runs. Sources: the kernels in ATen's ``native/cuda`` (version 2.x), which take more than their results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

aten = torch.ops.aten

Tensors = tuple[torch.Tensor, ...]
Empty = Callable[..., torch.Tensor]
"""Makes a tensor that the trace sees: extents, and the tensor whose type it has."""


def run_composite(func: Any, body: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs a composite operator as a GPU does; for ``plimsoll_gpu.composites.whole_composites``."""
    if func is aten.dropout.default:
        return aten.native_dropout(*args, **kwargs)[0]
    if func is aten.rms_norm.default:
        return _RmsNorm.apply(*args[:3])
    return body(*args, **kwargs)


class _RmsNorm(torch.autograd.Function):
    """The fused kernel of recent versions, which keeps its input and one number a row."""

    @staticmethod
    def forward(
        context: Any, input: torch.Tensor, shape: list[int], weight: torch.Tensor | None = None
    ) -> torch.Tensor:
        rows = input.shape[: input.dim() - len(shape)]
        result, scales = torch.empty_like(input), input.new_empty(rows, dtype=torch.float32)
        context.save_for_backward(input, weight, scales)
        return result

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> Any:
        input, weight, _ = context.saved_tensors
        return torch.empty_like(input), None, None if weight is None else torch.empty_like(weight)


@contextmanager
def kernels_of_cuda() -> Iterator[None]:
    """Keeps the gradient of Mish whole. Linear layers are those of ``composites.whole_composites``."""
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("mish_backward", lambda gradient, input: torch.empty_like(input), "AutogradMeta")
        yield


def is_summed_in_place(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether this is autograd adding a second gradient to a first that nobody else sees.

    Autograd then adds in place, but not while a dispatch mode watches.
    """
    if func is not aten.add.Tensor or torch.is_grad_enabled():
        return False
    first = args[0]
    uses = first._use_count(), torch._C._storage_Use_Count(first.untyped_storage()._cdata)
    return uses == USES_WITHIN_AUTOGRAD and _fills_its_storage(first)


def _fills_its_storage(tensor: torch.Tensor) -> bool:
    """Whether the tensor, up to the order of its dimensions, is contiguous."""
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    return tensor.permute(order).is_contiguous()


USES_WITHIN_AUTOGRAD = 4, 2
"""Counted owners of a gradient that autograd alone holds, and of its storage, as this call sees them."""


def _native_dropout(empty: Empty, input: torch.Tensor, p: float, train: bool | None) -> Tensors:
    mask = empty(input.shape, input, torch.bool)
    return empty(input.shape, input), mask


def _embedding_dense_backward(
    empty: Empty, gradient: torch.Tensor, indices: torch.Tensor, rows: int, padding: int, scale: bool
) -> torch.Tensor:
    """Over 3,072 indices are sorted, and summed in segments of ten first."""
    count, width = indices.numel(), gradient.shape[-1]
    if not gradient.is_contiguous():
        gradient = empty(gradient.shape, gradient)
    if count <= 3_072:
        return empty((rows, width), gradient)
    sorted_indices, order = empty((count,), indices), empty((count,), indices)
    # Alive while the indices are sorted.
    empty((count,), indices)
    result = empty((rows, width), gradient)
    starts, total = empty((count,), indices), empty((), indices)
    segments = min(count, rows)
    partials, offsets = empty((segments,), indices), empty((segments,), indices)
    partial_total = empty((), indices)
    most = count // 10 + segments
    partial_starts, sums = empty((most,), indices), empty((most, width), gradient, torch.float32)
    del sorted_indices, order, starts, total, partials, offsets, partial_total, partial_starts, sums
    return result


def _efficient_attention(
    empty: Empty, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any, **options: Any
) -> Tensors:
    """The state of the random generator stays on the host."""
    batch, heads, tokens, _ = query.shape
    output = empty((batch, tokens, heads, value.shape[-1]), query).transpose(1, 2)
    logarithms = empty((batch, heads, -(-tokens // 32) * 32), query, torch.float32)
    seed, offset = (torch.empty((), dtype=torch.int64) for _ in range(2))
    return output, logarithms, seed, offset


def _efficient_attention_backward(
    empty: Empty,
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    output: torch.Tensor,
    logarithms: torch.Tensor,
    seed: torch.Tensor,
    offset: torch.Tensor,
    dropout: float,
    wanted: list[bool],
    *rest: Any,
    **options: Any,
) -> tuple[torch.Tensor | None, ...]:
    """Takes a contiguous gradient, and multiplies it by the output for one number a row.

    The gradient of the bias has rows of a multiple of 16 numbers.
    """

    def by_token(tensor: torch.Tensor) -> torch.Tensor:
        batch, heads, tokens, width = tensor.shape
        return empty((batch, tokens, heads, width), tensor).transpose(1, 2)

    if not gradient.transpose(1, 2).is_contiguous():
        gradient = by_token(gradient)
    gradients = [by_token(tensor) for tensor in (query, key, value)]
    of_bias = None
    if bias is not None and wanted[3]:
        columns = bias.shape[-1]
        of_bias = empty((*bias.shape[:-1], -(-columns // 16) * 16), bias)[..., :columns]
    wide = torch.float32
    copies = [empty(tensor.shape, tensor, wide) for tensor in (gradient, output) if tensor.dtype != wide]
    # One expression, whose parts live until it is done.
    product = empty(output.shape, output, wide)
    by_token_sums = empty(output.shape[:-1], output, wide)
    by_head_sums = empty(output.shape[:-1], output, wide)
    del copies, product, by_token_sums
    # Sums of the query's gradient over blocks of keys, by tiles with a lock each.
    block = 64 if query.shape[-1] <= 64 else 128
    tiles = query.shape[:2].numel() * -(-query.shape[2] // block) * -(-query.shape[3] // 64)
    sums = empty((tiles * (block * 64 + 4),), output, wide)
    del by_head_sums, sums
    return (*gradients, of_bias)


def _sum(
    empty: Empty, input: torch.Tensor, dims: list[int], keepdim: bool = False, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Sums of many rows meet in a buffer, one place for each thread: ``Reduce.cuh``, on an A100."""
    whole = torch.sum(input, dims, keepdim, dtype=dtype)
    result = empty(whole.shape, whole)
    columns, rows = result.numel(), input.numel() // max(result.numel(), 1)
    vector = next(size for size in (4, 2, 1) if columns % size == 0)
    width, height = 32, 512 // vector // 32
    each, grid = -(-rows // height), -(-columns // (vector * width))
    if input.dim() - 1 not in dims and columns >= vector * width and each >= 256:
        most = 108 * (2048 // (width * height))
        blocks = max(min(-(-most // grid), -(-each // 16)), -(-each // 256))
        empty((columns * blocks * width * vector,), input, torch.float32)
    return result


def _scatter(empty: Empty, input: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Autograd scatters into its zeros in place, but not while a dispatch mode watches."""
    return empty(input.shape, input) if torch.is_grad_enabled() else input


def _index_put(
    empty: Empty, input: torch.Tensor, indices: Any, values: torch.Tensor, accumulate: bool = False
) -> torch.Tensor:
    """In place within autograd, as scattering is."""
    return empty(input.shape, input) if torch.is_grad_enabled() else input


STAND_INS: dict[Any, Callable[..., Any]] = {
    aten.native_dropout.default: _native_dropout,
    aten.embedding_dense_backward.default: _embedding_dense_backward,
    aten.sum.dim_IntList: _sum,
    aten.scatter.src: _scatter,
    aten.index_put.default: _index_put,
    aten._scaled_dot_product_efficient_attention.default: _efficient_attention,
    aten._scaled_dot_product_efficient_attention_backward.default: _efficient_attention_backward,
}
"""Kernels by operator. Each takes a way to make tensors, then the operator's arguments."""

CONTIGUOUS_GRADIENT = frozenset(
    {
        aten.convolution_backward.default,
        aten.native_batch_norm_backward.default,
        aten.native_layer_norm_backward.default,
        aten.native_group_norm_backward.default,
        aten._softmax_backward_data.default,
        aten._log_softmax_backward_data.default,
        aten.max_pool2d_with_indices_backward.default,
        aten.avg_pool2d_backward.default,
        aten._adaptive_avg_pool2d_backward.default,
        aten.upsample_bilinear2d_backward.default,
        aten.upsample_nearest2d_backward.default,
    }
)
"""Kernels that copy their first argument, the gradient, where it is not contiguous."""
