"""What ATen's operators are called in the graph format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from plimsoll_gpu.graph import Json


@dataclass
class Call:
    """One call of an ATen operator."""

    name: str
    """ATen's name, without overload and without the underscore that marks an in-place variant."""
    inplace: bool
    """Whether it writes over its first operand."""
    arguments: dict[str, Any]
    """Arguments under the names of ATen's schema, defaults included."""
    is_weight: Callable[[torch.Tensor], bool]
    """Whether a tensor is, or is a view of, a weight of the model."""

    @classmethod
    def of(
        cls,
        func: torch._ops.OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        is_weight: Callable[[torch.Tensor], bool],
    ) -> Call:
        """The call of an operator, its arguments under their names."""
        schema = func._schema
        arguments = {argument.name: argument.default_value for argument in schema.arguments}
        arguments.update(zip(arguments, args, strict=False))
        arguments.update(kwargs)
        name = schema.name.split("::")[1]
        inplace = name.endswith("_") and not name.endswith("__")
        return cls(name.removesuffix("_") if inplace else name, inplace, arguments, is_weight)

    def tensors(self, names: tuple[str, ...] | None = None) -> list[torch.Tensor]:
        """The tensors among the named arguments, or among all."""
        values = self.arguments if names is None else {name: self.arguments[name] for name in names}
        return [leaf for leaf in tree_leaves(list(values.values())) if isinstance(leaf, torch.Tensor)]


@dataclass
class Operation:
    """A node's operator in the graph format."""

    op: str
    attributes: Json = field(default_factory=dict)
    operands: tuple[str, ...] | None = None
    """Arguments that hold the operands, in order; ``None`` means all tensors as the schema has them."""


def translate(call: Call) -> Operation:
    """The operator of a call; one that the format does not know keeps ATen's name."""
    if call.name in CREATIONS:
        return Operation("copy", operands=())
    rule = RULES.get(call.name)
    return Operation(call.name + "_" * call.inplace) if rule is None else rule(call)


Rule = Callable[[Call], Operation]

CREATIONS = frozenset(
    "arange empty empty_like empty_permuted empty_strided eye full full_like lift_fresh linspace new_empty "
    "new_empty_strided new_full new_ones new_zeros ones ones_like rand randn scalar_tensor zeros "
    "zeros_like".split()
)
"""Operators that make a tensor without reading one: new storage, nothing saved, like a copy of nothing."""


def _set(**attributes: Any) -> Json:
    """Attributes that are not ``False``, 0 or empty: those are the format's defaults."""
    return {name: value for name, value in attributes.items() if value}


def _extents(value: int | list[int], default: int) -> list[int]:
    """Extents of a window; none where all are the default."""
    extents = [value] if isinstance(value, int) else list(value)
    return [] if all(extent == default for extent in extents) else extents


def _plain(op: str) -> Rule:
    return lambda call: Operation(op)


def _activation(function: str) -> Rule:
    return lambda call: Operation("activation", {"function": function} | _set(inplace=call.inplace))


def _hardtanh(call: Call) -> Operation:
    limits = (call.arguments["min_val"], call.arguments["max_val"])
    return _activation("relu6" if limits == (0, 6) else "hard_tanh")(call)


def _elu(call: Call) -> Operation:
    return _activation("elu" if call.arguments["scale"] == 1 else "selu")(call)


def _binary(function: str) -> Rule:
    return lambda call: Operation("binary", {"function": function} | _set(inplace=call.inplace))


def _difference(call: Call) -> Operation:
    """With one operand: a sum if a number is taken from it, a difference if it is taken from a number."""
    is_reversed = call.name == "rsub"
    if not is_reversed and not isinstance(call.arguments["other"], torch.Tensor):
        return _binary("add")(call)
    operation = _binary("subtract")(call)
    operation.operands = ("other", "self") if is_reversed else ("self", "other")
    return operation


def _product(left: str, right: str, bias: str | None = None) -> Rule:
    """A matrix product: a linear layer where the right side is a weight, otherwise of two activations."""
    operands = (left, right) if bias is None else (left, right, bias)

    def rule(call: Call) -> Operation:
        x, weight = call.arguments[left], call.arguments[right]
        is_layer = call.is_weight(weight) and not call.is_weight(x)
        return Operation("linear" if is_layer else "mat_mul", operands=operands)

    return rule


def _convolution(call: Call) -> Operation:
    arguments = call.arguments
    groups = arguments["groups"]
    return Operation(
        "conv",
        {"kernel": list(arguments["weight"].shape[2:])}
        | _set(
            stride=_extents(arguments["stride"], 1),
            padding=_extents(arguments["padding"], 0),
            dilation=_extents(arguments["dilation"], 1),
            groups=groups if groups != 1 else 0,
            transposed=arguments["transposed"],
        ),
    )


def _pool(kind: str) -> Rule:
    def rule(call: Call) -> Operation:
        arguments = call.arguments
        kernel = _extents(arguments["kernel_size"], 0)
        stride = list(arguments["stride"])
        return Operation(
            "pool",
            {"kind": kind, "kernel": kernel}
            | _set(stride=stride if stride != kernel else [], padding=_extents(arguments["padding"], 0)),
        )

    return rule


def _adaptive_pool(kind: str) -> Rule:
    return lambda call: Operation("pool", {"kind": kind})


def _pad(mode: str) -> Rule:
    return lambda call: Operation("pad", {"mode": mode})


def _reduce(function: str) -> Rule:
    return lambda call: Operation("reduce", {"function": function})


def _extremum(call: Call) -> Operation:
    """The largest or smallest of two tensors, along a dimension with its position, or of all elements."""
    if "other" in call.arguments:
        return _binary("other")(call)
    return _reduce("max" if "dim" in call.arguments else "amax")(call)


def _dropout(call: Call) -> Operation:
    return Operation("dropout", {"p": call.arguments["p"]} | _set(inplace=call.inplace))


def _group_norm(call: Call) -> Operation:
    return Operation("group_norm", {"groups": call.arguments["group"]})


def _embedding(call: Call) -> Operation:
    return Operation("embedding", _set(sparse=call.arguments["sparse"]))


def _attention(call: Call) -> Operation:
    arguments = call.arguments
    heads = arguments["query"].shape[-3]
    kv_heads = arguments["key"].shape[-3]
    mask = "attn_bias" if "attn_bias" in arguments else "attn_mask"
    return Operation(
        "attention",
        {"heads": heads}
        | _set(
            kv_heads=kv_heads if kv_heads != heads else 0,
            causal=arguments["is_causal"],
            dropout=arguments["dropout_p"],
        ),
        ("query", "key", "value", mask) if mask in arguments else ("query", "key", "value"),
    )


def _recurrent(cell: str) -> Rule:
    def rule(call: Call) -> Operation:
        arguments = call.arguments
        state = arguments["hx"]
        hidden = (state[-1] if isinstance(state, (list, tuple)) else state).shape[-1]
        return Operation(
            "recurrent",
            {"cell": cell, "hidden": hidden, "layers": arguments["num_layers"]}
            | _set(bidirectional=arguments["bidirectional"]),
        )

    return rule


def _all(rule: Rule, names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


RULES: dict[str, Rule] = {
    "mm": _product("self", "mat2"),
    "bmm": _product("self", "mat2"),
    "mv": _product("self", "vec"),
    "addmm": _product("mat1", "mat2", "self"),
    "baddbmm": _product("batch1", "batch2", "self"),
    "convolution": _convolution,
    **_all(_plain("batch_norm"), "native_batch_norm _native_batch_norm_legit cudnn_batch_norm"),
    "native_layer_norm": _plain("layer_norm"),
    "native_group_norm": _group_norm,
    "instance_norm": _plain("instance_norm"),
    **_all(_plain("rms_norm"), "rms_norm _fused_rms_norm"),
    "relu": _activation("relu"),
    "hardtanh": _hardtanh,
    "leaky_relu": _activation("leaky_relu"),
    **_all(_activation("prelu"), "prelu _prelu_kernel"),
    "elu": _elu,
    "gelu": _activation("gelu"),
    "silu": _activation("silu"),
    "mish": _activation("mish"),
    "softplus": _activation("softplus"),
    "tanh": _activation("tanh"),
    "sigmoid": _activation("sigmoid"),
    "hardswish": _activation("hard_swish"),
    "hardsigmoid": _activation("hard_sigmoid"),
    "glu": _activation("glu"),
    **_all(_plain("softmax"), "_softmax _safe_softmax"),
    "_log_softmax": _plain("log_softmax"),
    **_all(_dropout, "dropout native_dropout"),
    **_all(_pool("max"), "max_pool1d max_pool2d_with_indices max_pool3d_with_indices"),
    **_all(_pool("average"), "avg_pool1d avg_pool2d avg_pool3d"),
    **_all(
        _adaptive_pool("adaptive_average"),
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d",
    ),
    **_all(_adaptive_pool("adaptive_max"), "adaptive_max_pool2d adaptive_max_pool3d"),
    "embedding": _embedding,
    **_all(
        _attention,
        "scaled_dot_product_attention _scaled_dot_product_efficient_attention "
        "_scaled_dot_product_flash_attention _scaled_dot_product_cudnn_attention",
    ),
    "add": _binary("add"),
    **_all(_difference, "sub rsub"),
    "mul": _binary("multiply"),
    "div": _binary("divide"),
    **_all(
        _binary("other"),
        "atan2 bitwise_and bitwise_or bitwise_xor eq floor_divide fmod ge gt le logical_and logical_or "
        "logical_xor lt maximum minimum ne pow remainder",
    ),
    **_all(_plain("concat"), "cat stack"),
    **_all(_plain("copy"), "_to_copy clone flip repeat roll"),
    "constant_pad_nd": _plain("pad"),
    **_all(_pad("reflect"), "reflection_pad1d reflection_pad2d reflection_pad3d"),
    **_all(_pad("replicate"), "replication_pad1d replication_pad2d replication_pad3d"),
    "mean": _plain("reduce"),
    "sum": _reduce("sum"),
    **_all(_extremum, "max min"),
    **_all(_reduce("amax"), "amax amin"),
    "prod": _reduce("product"),
    **_all(_reduce("norm"), "linalg_vector_norm norm"),
    **_all(_reduce("std"), "std std_mean"),
    **_all(_reduce("var"), "var var_mean"),
    "logsumexp": _reduce("logsumexp"),
    **_all(_reduce("index"), "all any argmax argmin"),
    **_all(
        _plain("upsample"),
        "_upsample_bicubic2d_aa _upsample_bilinear2d_aa upsample_bicubic2d upsample_bilinear2d "
        "upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d",
    ),
    **_all(_plain("gather"), "gather index index_select take"),
    "lstm": _recurrent("lstm"),
    "gru": _recurrent("gru"),
    **_all(_recurrent("rnn"), "rnn_relu rnn_tanh"),
}
"""ATen's name to the rule that translates it."""
