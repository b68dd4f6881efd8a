"""Quick shapes against those that PyTorch works out."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from plimsoll_gpu.quick import RULES, result_of

aten = torch.ops.aten


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def signs(value: Any) -> list[tuple[Any, ...]]:
    tensors = value if isinstance(value, tuple) else (value,)
    return [(tensor.shape, tensor.stride(), tensor.dtype, tensor.device) for tensor in tensors]


OPERANDS = {
    "alike": (meta(4, 3, 2), meta(4, 3, 2)),
    "broadcast": (meta(4, 3, 2), meta(3, 1)),
    "widened": (meta(2, 3, dtype=torch.bfloat16), meta(2, 3)),
    "narrow": (meta(2, 3, dtype=torch.float16), meta(2, 3, dtype=torch.float16)),
    "a number": (meta(4, 3), 2.5),
    "whole": (meta(4, 3, dtype=torch.int64), 2.5),
    "a scalar": (meta(4, 3), meta()),
    "transposed": (meta(4, 3).t(), meta(3, 4)),
    "channels last": (meta(2, 3, 4, 5).to(memory_format=torch.channels_last),) * 2,
}


@pytest.mark.parametrize("name", OPERANDS)
@pytest.mark.parametrize("operator", [aten.add.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.sub.Tensor])
def test_arithmetic_is_shaped_as_pytorch_does(operator: Any, name: str) -> None:
    operands = OPERANDS[name]
    assert operator in RULES
    assert signs(result_of(operator, operands, {})) == signs(operator(*operands))


@pytest.mark.parametrize("operator", [aten.relu.default, aten.gelu.default, aten.silu.default, aten.sigmoid.default])
@pytest.mark.parametrize("tensor", [meta(4, 3), meta(4, 3).t(), meta(4, 3, dtype=torch.bfloat16), meta(8)[::2]])
def test_activations_are_shaped_as_pytorch_does(operator: Any, tensor: torch.Tensor) -> None:
    assert signs(result_of(operator, (tensor,), {})) == signs(operator(tensor))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_batch_norm_is_shaped_as_pytorch_does(training: bool, dtype: torch.dtype) -> None:
    row = [meta(3) for _ in range(4)]
    args = (meta(2, 3, 4, 4, dtype=dtype), *row, training, 0.1, 1e-5)
    assert signs(result_of(aten.native_batch_norm.default, args, {})) == signs(aten.native_batch_norm.default(*args))


def test_what_is_overwritten_is_returned() -> None:
    tensor = meta(4, 3)
    assert result_of(aten.add_.Tensor, (tensor, meta(4, 3)), {}) is tensor
    with pytest.raises(RuntimeError):
        result_of(aten.add_.Tensor, (tensor, meta(5, 3)), {})
