"""Small networks, one for each kind of operator, and a few real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

CLASSES = 10


@dataclass(frozen=True)
class Case:
    """A network, what goes in, and at which batch."""

    build: Callable[[], nn.Module]
    sample: Sequence[int]
    """Extents of a sample, without the batch."""
    batch: int = 8
    tokens: bool = False
    """Whether the input is indices rather than numbers."""
    precision: str = "fp32"
    """As the training setup names it."""
    checkpointed: bool = False
    """Whether the network's blocks are computed again in the backward pass."""

    def inputs(self, batch: int) -> torch.Tensor:
        """A batch on the meta device."""
        dtype = torch.int64 if self.tokens else torch.float32
        return torch.empty(batch, *self.sample, dtype=dtype, device="meta")


class Lambda(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Applies the function."""
        return self.function(x)


class Residual(nn.Module):
    """``x + f(x)``."""

    def __init__(self, *inner: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Sequential(*inner)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Adds input and result."""
        return x + cast(torch.Tensor, self.inner(x))


class Gate(nn.Module):
    """``x * sigmoid(f(mean(x)))``: squeeze and excitation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, channels // 4, 1)
        self.excite = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scales channels."""
        scale = self.excite(F.relu(self.squeeze(x.mean((2, 3), keepdim=True)))).sigmoid()
        return x * cast(torch.Tensor, scale)


class Gated(nn.Module):
    """``silu(f(x)) * g(x)``: the feed-forward part of a Llama."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiplies two projections."""
        return cast(torch.Tensor, self.down(F.silu(self.gate(x)) * self.up(x)))


class Dense(nn.Module):
    """A DenseNet block: every layer reads all before it."""

    def __init__(self, channels: int, growth: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv2d(channels + growth * layer, growth, 3, padding=1) for layer in range(layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Concatenates what the layers make."""
        features = [x]
        for layer in self.layers:
            features.append(F.relu(layer(torch.cat(features, 1))))
        return torch.cat(features, 1)


class Attention(nn.Module):
    """Self-attention with a packed projection, by a fused kernel or by its parts."""

    def __init__(self, width: int, heads: int, fused: bool = True, dropout: float = 0.0, packed: bool = True) -> None:
        super().__init__()
        self.heads, self.fused, self.dropout, self.packed = heads, fused, dropout, packed
        self.projections = nn.ModuleList(
            [nn.Linear(width, 3 * width)] if packed else [nn.Linear(width, width) for _ in range(3)]
        )
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attends to itself."""
        batch, tokens, width = x.shape
        if self.packed:
            packed = self.projections[0](x).reshape(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            query, key, value = packed.unbind(0)
        else:
            query, key, value = (
                projection(x).view(batch, tokens, self.heads, -1).transpose(1, 2) for projection in self.projections
            )
        if self.fused:
            mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=self.dropout)
        else:
            scale = query.shape[-1] ** -0.5
            mixed = F.dropout(((query * scale) @ key.transpose(-2, -1)).softmax(-1), self.dropout) @ value
        return cast(torch.Tensor, self.out(mixed.transpose(1, 2).reshape(batch, tokens, width)))


class Biased(nn.Module):
    """Attention whose scores get a bias that trains, by relative position, or a mask of booleans."""

    def __init__(self, width: int, heads: int, tokens: int, is_mask: bool = False) -> None:
        super().__init__()
        self.heads, self.tokens, self.is_mask = heads, tokens, is_mask
        self.packed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.table = nn.Parameter(torch.empty(4 * tokens, heads))
        self.register_buffer("places", torch.zeros(tokens, tokens, dtype=torch.int64), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attends to itself."""
        batch, tokens, width = x.shape
        packed = self.packed(x).reshape(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        places = cast(torch.Tensor, self.places)
        if self.is_mask:
            bias = places > 0
        else:
            bias = self.table[places.view(-1)].view(tokens, tokens, self.heads).permute(2, 0, 1).unsqueeze(0)
        query, key, value = packed.unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return cast(torch.Tensor, self.out(mixed.transpose(1, 2).reshape(batch, tokens, width)))


class Affine(nn.Module):
    """``beta + alpha * x``, in one operator, as a ResMLP has it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha, self.beta = nn.Parameter(torch.empty(1, width)), nn.Parameter(torch.empty(1, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scales and shifts."""
        return torch.addcmul(self.beta, self.alpha, x)


class Tied(nn.Module):
    """A language model whose last layer is its table."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, width)
        self.inner = nn.Linear(width, width)
        self.out = nn.Linear(width, rows, bias=False)
        self.out.weight = self.table.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the next token."""
        scores: torch.Tensor = self.out(F.gelu(self.inner(self.table(x))))
        return scores


class Adapted(nn.Module):
    """A frozen linear layer with a low-rank adapter."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.base = nn.Linear(width, width).requires_grad_(False)
        self.down, self.up = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Adds the adapter's result."""
        result: torch.Tensor = self.base(x) + self.up(self.down(x)) * 2.0
        return result


class Encoder(nn.Module):
    """Tokens, positions, ``nn.TransformerEncoder``, a mean and a classifier."""

    def __init__(self, rows: int, width: int, tokens: int, layers: int, heads: int, inner: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(rows, width)
        self.positions = nn.Parameter(torch.zeros(1, tokens, width))
        layer = nn.TransformerEncoderLayer(width, heads, inner, 0.1, batch_first=True)
        self.model = nn.TransformerEncoder(layer, layers)
        self.out = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classifies sequences."""
        result: torch.Tensor = self.out(self.model(self.embedding(x) + self.positions).mean(1))
        return result


class Blocks(nn.Module):
    """A stack of residual blocks that may be checkpointed."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.stem = nn.Linear(16, width)
        self.blocks = nn.ModuleList(
            Residual(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(depth)
        )
        self.out = nn.Linear(width, CLASSES)
        self.checkpointed = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Runs the blocks, keeping what is between them alone if they are checkpointed."""
        x = self.stem(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False, preserve_rng_state=False) if self.checkpointed else block(x)
        result: torch.Tensor = self.out(x)
        return result


class First(nn.Module):
    """The first result of a model that returns several."""

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__()
        self.model, self.options = model, options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Runs the model."""
        result: torch.Tensor = self.model(x, **self.options)[0]
        return result


def _vector(*layers: nn.Module, width: int = 32) -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), *layers, nn.Linear(width, CLASSES))


def _image(*layers: nn.Module, channels: int = 8) -> nn.Module:
    """Layers on eight channels of 12 x 12, between convolutions."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        *layers,
        nn.Conv2d(channels, 8, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, CLASSES),
    )


def _sequence(*layers: nn.Module, width: int = 32) -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), *layers, Lambda(lambda x: x.mean(1)), nn.Linear(width, CLASSES))


def _bert() -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128
    )
    return First(BertForMaskedLM(config), return_dict=False)


def _gpt2(attention: str) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=500, n_positions=64, n_embd=64, n_layer=2, n_head=2, attn_implementation=attention)  # type: ignore[call-arg]
    return First(GPT2LMHeadModel(config), return_dict=False, use_cache=False)


def _llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=500, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2
    )
    return First(LlamaForCausalLM(config), return_dict=False, use_cache=False)


def _torchvision(name: str, **options: Any) -> nn.Module:
    import torchvision

    model: nn.Module = getattr(torchvision.models, name)(num_classes=CLASSES, **options)
    return model


def _stochastic() -> nn.Module:
    from torchvision.ops import StochasticDepth

    return _image(Residual(nn.Conv2d(8, 8, 3, padding=1), StochasticDepth(0.2, "row")))


def _frozen_front() -> nn.Module:
    model = _image(nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
    for layer in list(model.children())[:3]:
        layer.requires_grad_(False)
    return model


ACTIVATIONS: dict[str, Callable[..., nn.Module]] = {
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "selu": nn.SELU,
    "silu": nn.SiLU,
    "mish": nn.Mish,
    "hard_swish": nn.Hardswish,
    "hard_sigmoid": nn.Hardsigmoid,
    "hard_tanh": nn.Hardtanh,
}
"""Activations that can work in place."""


def _activated(make: Callable[..., nn.Module], **options: Any) -> Case:
    return Case(lambda: _image(make(**options)), IMAGE)


IMAGE, VECTOR, SEQUENCE = (3, 12, 12), (16,), (24, 16)


def _overwritten(x: torch.Tensor) -> torch.Tensor:
    """Twice a vector, with another written over its first quarter."""
    doubled = x * 2
    doubled[:, :8] = x[:, 8:16].tanh()
    return doubled


def _filled(x: torch.Tensor) -> torch.Tensor:
    """Zeros with a part of a vector written into them: through it a gradient flows that the zeros had not."""
    filled = x.new_zeros(x.shape)
    filled[:, :8] = x[:, 8:16]
    return filled


ATEN: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "abs": torch.abs,
    "amin": lambda x: x - x.amin(-1, keepdim=True),
    "atan": torch.atan,
    "bitwise_not": lambda x: x * ~(x > 0),
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp_min": lambda x: x.clamp(min=0.1),
    "cos": torch.cos,
    "cumsum": lambda x: x.cumsum(-1),
    "erf": torch.erf,
    "erfc": torch.erfc,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "floor": torch.floor,
    "hardshrink": F.hardshrink,
    "index_put": lambda x: x.tanh().index_put(((x[:, 0] > 0).long(),), x.sigmoid()),
    "log": torch.log,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "masked_fill": lambda x: x.masked_fill(x > 0, 0.0),
    "maximum": lambda x: torch.maximum(x.tanh(), x.sigmoid()),
    "neg": torch.neg,
    "pow": lambda x: x.pow(2),
    "pow_half": lambda x: x**0.5,
    "reciprocal": torch.reciprocal,
    "rsqrt": torch.rsqrt,
    "scatter": lambda x: x.tanh().scatter(-1, (x > 0).long(), x.sigmoid()),
    "scatter_add": lambda x: x.tanh().scatter_add(-1, (x > 0).long(), x.sigmoid()),
    "scatter_number": lambda x: x.tanh().scatter(-1, (x[:, :4] > 0).long(), 0.0),
    "sign": torch.sign,
    "sin": torch.sin,
    "softshrink": F.softshrink,
    "softsign": F.softsign,
    "sort": lambda x: x.sort(-1)[0],
    "sqrt": torch.sqrt,
    "square": torch.square,
    "tan": torch.tan,
    "threshold": lambda x: F.threshold(x, 0.1, 0.0),
    "where": lambda x: torch.where(x > 0, x, x.tanh()),
}
"""Functions of a vector, by the names that ATen gives their operators."""


CASES: dict[str, Case] = {
    "mlp": Case(lambda: _vector(nn.ReLU(), nn.Linear(32, 64), nn.ReLU(), width=64), VECTOR),
    **{f"act_{name}": _activated(make) for name, make in ACTIVATIONS.items()},
    **{f"act_{name}_inplace": _activated(make, inplace=True) for name, make in ACTIVATIONS.items()},
    "act_gelu": Case(lambda: _vector(nn.GELU()), VECTOR),
    "act_tanh": Case(lambda: _vector(nn.Tanh()), VECTOR),
    "act_sigmoid": Case(lambda: _vector(nn.Sigmoid()), VECTOR),
    "act_softplus": Case(lambda: _vector(nn.Softplus()), VECTOR),
    "act_prelu": Case(lambda: _image(nn.PReLU(8)), IMAGE),
    "act_glu": Case(lambda: _vector(nn.GLU(), width=16), VECTOR),
    "conv_bare": Case(lambda: _image(nn.Conv2d(8, 8, 3, padding=1, bias=False)), IMAGE),
    "conv_grouped": Case(lambda: _image(nn.Conv2d(8, 8, 3, padding=1, groups=4)), IMAGE),
    "conv_depthwise": Case(lambda: _image(nn.Conv2d(8, 8, 3, padding=1, groups=8)), IMAGE),
    "conv_strided": Case(lambda: _image(nn.Conv2d(8, 16, 3, 2, 1), channels=16), IMAGE),
    "conv_transposed": Case(lambda: _image(nn.ConvTranspose2d(8, 8, 2, 2)), IMAGE),
    "norm_batch": Case(lambda: _image(nn.BatchNorm2d(8), nn.ReLU(inplace=True)), IMAGE),
    "norm_batch_plain": Case(lambda: _image(nn.BatchNorm2d(8, affine=False)), IMAGE),
    "norm_group": Case(lambda: _image(nn.GroupNorm(4, 8)), IMAGE),
    "norm_instance": Case(lambda: _image(nn.InstanceNorm2d(8)), IMAGE),
    "norm_instance_affine": Case(lambda: _image(nn.InstanceNorm2d(8, affine=True)), IMAGE),
    "norm_local_response": Case(lambda: _image(nn.LocalResponseNorm(3)), IMAGE),
    "norm_layer": Case(lambda: _sequence(nn.LayerNorm(32)), SEQUENCE),
    "norm_layer_plain": Case(lambda: _sequence(nn.LayerNorm(32, elementwise_affine=False)), SEQUENCE),
    "norm_rms": Case(lambda: _sequence(nn.RMSNorm(32)), SEQUENCE),
    "dropout": Case(lambda: _vector(nn.Dropout(0.1)), VECTOR),
    "dropout_inplace": Case(lambda: _vector(nn.Dropout(0.1, inplace=True)), VECTOR),
    "dropout_after_relu_inplace": Case(lambda: _vector(nn.ReLU(inplace=True), nn.Dropout(0.1)), VECTOR),
    "dropout_nothing": Case(lambda: _vector(nn.Dropout(0.0)), VECTOR),
    "dropout_2d": Case(lambda: _image(nn.Dropout2d(0.1)), IMAGE),
    "stochastic_depth": Case(_stochastic, IMAGE),
    "pool_max": Case(lambda: _image(nn.MaxPool2d(2)), IMAGE),
    "pool_average": Case(lambda: _image(nn.AvgPool2d(2)), IMAGE),
    "pool_adaptive_max": Case(lambda: _image(nn.AdaptiveMaxPool2d(3)), IMAGE),
    "pool_adaptive_average": Case(lambda: _image(nn.AdaptiveAvgPool2d(3)), IMAGE),
    "pool_global": Case(lambda: _image(), IMAGE),
    "residual": Case(lambda: _image(Residual(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())), IMAGE),
    "residual_norm": Case(
        lambda: _image(
            *(
                Residual(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
                for _ in range(2)
            )
        ),
        IMAGE,
    ),
    "residual_bare": Case(lambda: _vector(Residual(nn.ReLU()), Residual(nn.Tanh())), VECTOR),
    "gate": Case(lambda: _image(Gate(8)), IMAGE),
    "gated_linear": Case(lambda: _sequence(Gated(32)), SEQUENCE),
    "multiply_scalar": Case(lambda: _vector(Lambda(lambda x: x * 0.5), nn.ReLU()), VECTOR),
    "divide": Case(lambda: _vector(Lambda(lambda x: x / (1.0 + x.abs()))), VECTOR),
    "subtract_from_one": Case(lambda: _vector(Lambda(lambda x: 1 - x.tanh())), VECTOR),
    "subtract_broadcast": Case(lambda: _vector(Lambda(lambda x: x - x.tanh().mean(-1, keepdim=True))), VECTOR),
    "subtract": Case(lambda: _vector(Lambda(lambda x: x.tanh() - x.sigmoid())), VECTOR),
    "add_inplace": Case(lambda: _vector(Lambda(lambda x: (x * 0.5).add_(x)), nn.ReLU()), VECTOR),
    "dense_block": Case(lambda: _image(Dense(8, 4, 3), channels=20), IMAGE),
    "chunk": Case(lambda: _vector(Lambda(lambda x: x.chunk(2, -1)[0] * x.chunk(2, -1)[1]), width=16), VECTOR),
    "split_branches": Case(lambda: _image(Lambda(lambda x: torch.cat([F.relu(x[:, :4]), x[:, 4:]], 1))), IMAGE),
    "slice": Case(lambda: _sequence(Lambda(lambda x: x[:, 1:9])), SEQUENCE),
    "expand": Case(lambda: _sequence(Lambda(lambda x: x + x[:, :1].expand_as(x).contiguous())), SEQUENCE),
    "transpose_copy": Case(lambda: _sequence(Lambda(lambda x: x.transpose(1, 2).contiguous()), width=24), SEQUENCE),
    "channel_shuffle": Case(
        lambda: _image(Lambda(lambda x: x.view(-1, 2, 4, 12, 12).transpose(1, 2).reshape(-1, 8, 12, 12))), IMAGE
    ),
    "upsample_nearest": Case(lambda: _image(nn.Upsample(scale_factor=2)), IMAGE),
    "upsample_bilinear": Case(lambda: _image(nn.Upsample(scale_factor=2, mode="bilinear")), IMAGE),
    "pad": Case(lambda: _image(nn.ZeroPad2d(1)), IMAGE),
    "pad_reflect": Case(lambda: _image(nn.ReflectionPad2d(1)), IMAGE),
    "pad_replicate": Case(lambda: _image(nn.ReplicationPad2d(1)), IMAGE),
    "softmax": Case(lambda: _sequence(Lambda(lambda x: x.softmax(-1))), SEQUENCE),
    "log_softmax_output": Case(lambda: nn.Sequential(_vector(nn.ReLU()), nn.LogSoftmax(-1)), VECTOR),
    "softmax_output": Case(lambda: nn.Sequential(_vector(nn.ReLU()), nn.Softmax(-1)), VECTOR),
    "reduce_max": Case(
        lambda: nn.Sequential(nn.Linear(16, 32), Lambda(lambda x: x.amax(1)), nn.Linear(32, 10)), SEQUENCE
    ),
    "reduce_max_index": Case(
        lambda: nn.Sequential(nn.Linear(16, 32), Lambda(lambda x: x.max(1)[0]), nn.Linear(32, 10)), SEQUENCE
    ),
    "reduce_norm": Case(lambda: _vector(Lambda(lambda x: x / x.norm(dim=-1, keepdim=True))), VECTOR),
    "reduce_std": Case(
        lambda: nn.Sequential(nn.Linear(16, 32), Lambda(lambda x: x.std(1)), nn.Linear(32, 10)), SEQUENCE
    ),
    "reduce_var": Case(
        lambda: nn.Sequential(nn.Linear(16, 32), Lambda(lambda x: x.var(1)), nn.Linear(32, 10)), SEQUENCE
    ),
    "reduce_logsumexp": Case(
        lambda: nn.Sequential(nn.Linear(16, 32), Lambda(lambda x: x.logsumexp(1)), nn.Linear(32, 10)), SEQUENCE
    ),
    "reduce_sum": Case(
        lambda: nn.Sequential(nn.Linear(16, 32), Lambda(lambda x: x.sum(1)), nn.Linear(32, 10)), SEQUENCE
    ),
    **{
        f"aten_{name}": Case(lambda function=function: _vector(Lambda(function)), VECTOR)  # type: ignore[misc]
        for name, function in ATEN.items()
    },
    "aten_addcmul": Case(lambda: _vector(Affine(32)), VECTOR),
    "aten_pixel_shuffle": Case(lambda: _image(nn.PixelShuffle(2), nn.PixelUnshuffle(2)), IMAGE),
    "aten_im2col": Case(
        lambda: _image(Lambda(lambda x: F.unfold(x, 3, padding=1).unflatten(2, x.shape[2:])), channels=72), IMAGE
    ),
    "aten_grid_sampler": Case(
        lambda: _image(Lambda(lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1), align_corners=False))), IMAGE
    ),
    "aten_copy": Case(lambda: _vector(Lambda(_overwritten)), VECTOR),
    "aten_copy_to_new": Case(lambda: _vector(Lambda(_filled), nn.Tanh()), VECTOR),
    "aten_topk": Case(lambda: _vector(Lambda(lambda x: x.topk(16, -1)[0]), width=16), VECTOR),
    "aten_roll": Case(lambda: _image(Lambda(lambda x: x.roll((1, 1), (2, 3)))), IMAGE),
    "embedding_small": Case(
        lambda: nn.Sequential(nn.Embedding(50, 32), Lambda(lambda x: x.mean(1)), nn.Linear(32, CLASSES)),
        (24,),
        tokens=True,
    ),
    "embedding_sorted": Case(
        lambda: nn.Sequential(nn.Embedding(2000, 16), Lambda(lambda x: x.mean(1)), nn.Linear(16, CLASSES)),
        (512,),
        tokens=True,
    ),
    "embedding_sparse": Case(
        lambda: nn.Sequential(nn.Embedding(50, 32, sparse=True), Lambda(lambda x: x.mean(1)), nn.Linear(32, CLASSES)),
        (24,),
        tokens=True,
    ),
    "tied": Case(lambda: Tied(100, 32), (24,), tokens=True),
    "adapter": Case(lambda: _vector(Adapted(32, 4), nn.ReLU(), Adapted(32, 4)), VECTOR),
    "frozen_front": Case(_frozen_front, IMAGE),
    "frozen_behind": Case(
        lambda: nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, CLASSES).requires_grad_(False)), VECTOR
    ),
    "frozen_middle": Case(lambda: _image(nn.Conv2d(8, 8, 3, padding=1).requires_grad_(False), nn.ReLU()), IMAGE),
    "attention_packed": Case(lambda: _sequence(Attention(32, 4)), SEQUENCE),
    "attention_separate": Case(lambda: _sequence(Attention(32, 4, packed=False)), SEQUENCE),
    "attention_biased": Case(lambda: _sequence(Biased(32, 4, 24)), SEQUENCE),
    "attention_biased_aligned": Case(lambda: _sequence(Biased(32, 4, 32)), (32, 16)),
    "attention_masked": Case(lambda: _sequence(Biased(32, 4, 24, is_mask=True)), SEQUENCE),
    "attention_eager": Case(lambda: _sequence(Attention(32, 4, fused=False)), SEQUENCE),
    "attention_eager_dropout": Case(lambda: _sequence(Attention(32, 4, fused=False, dropout=0.1)), SEQUENCE),
    "encoder_layer": Case(lambda: Encoder(500, 32, 24, 2, 4, 64), (24,), tokens=True),
    "encoder_odd": Case(lambda: Encoder(500, 36, 24, 2, 6, 72), (24,), tokens=True),
    "encoder_long": Case(lambda: Encoder(5000, 32, 512, 2, 4, 64), (512,), tokens=True),
    "blocks": Case(lambda: Blocks(32, 4), VECTOR),
    "blocks_checkpointed": Case(lambda: Blocks(32, 4), VECTOR, checkpointed=True),
    "bf16_blocks": Case(lambda: Blocks(32, 4), VECTOR, precision="bf16"),
    "bf16_norm_batch": Case(lambda: _image(nn.BatchNorm2d(8), nn.ReLU(inplace=True)), IMAGE, precision="bf16"),
    "bf16_residual": Case(lambda: _image(Residual(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())), IMAGE, precision="bf16"),
    "amp_mlp": Case(
        lambda: _vector(nn.ReLU(), nn.Linear(32, 64), nn.ReLU(), width=64),
        VECTOR,
        precision="amp_bf16",
    ),
    "amp_gated": Case(lambda: _sequence(Gated(32)), SEQUENCE, precision="amp_bf16"),
    "amp_residual": Case(
        lambda: _image(Residual(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())), IMAGE, precision="amp_bf16"
    ),
    "amp_frozen_front": Case(_frozen_front, IMAGE, precision="amp_bf16"),
    "gpt2_tiny": Case(lambda: _gpt2("sdpa"), (32,), tokens=True),
    "gpt2_tiny_eager": Case(lambda: _gpt2("eager"), (32,), tokens=True),
    "bert_tiny": Case(_bert, (32,), tokens=True),
    "llama_tiny": Case(_llama, (32,), tokens=True),
    "resnet18": Case(lambda: _torchvision("resnet18"), (3, 64, 64), 4),
    "mobilenet_v2": Case(lambda: _torchvision("mobilenet_v2"), (3, 64, 64), 4),
    "mobilenet_v3_small": Case(lambda: _torchvision("mobilenet_v3_small"), (3, 64, 64), 4),
    "densenet121": Case(lambda: _torchvision("densenet121"), (3, 64, 64), 4),
    "squeezenet1_1": Case(lambda: _torchvision("squeezenet1_1"), (3, 64, 64), 4),
    "shufflenet": Case(lambda: _torchvision("shufflenet_v2_x0_5"), (3, 64, 64), 4),
    "googlenet": Case(lambda: _torchvision("googlenet", aux_logits=False, init_weights=False), (3, 64, 64), 4),
    "convnext_tiny": Case(lambda: _torchvision("convnext_tiny"), (3, 64, 64), 4),
    "vit_b_16": Case(lambda: _torchvision("vit_b_16", image_size=64), (3, 64, 64), 4),
    "vgg11": Case(lambda: _torchvision("vgg11"), (3, 64, 64), 4),
}
"""Networks by the name of their golden file."""
