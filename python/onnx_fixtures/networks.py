"""Networks of a few hundred parameters that show what exporters do to each kind of layer."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Gate(nn.Module):
    """Squeeze-and-excitation: channels weighed by their means."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, 2, 1)
        self.expand = nn.Conv2d(2, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Weighs the channels of ``(batch, channels, height, width)``."""
        weights = F.silu(self.reduce(x.mean((2, 3), keepdim=True)))
        gated: torch.Tensor = x * torch.sigmoid(self.expand(weights))
        return gated


class Convolutions(nn.Module):
    """Batch and group norms, a gate, a residual sum, and several activation functions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.act = nn.ReLU(inplace=True)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
        self.norm2 = nn.BatchNorm2d(8)
        self.gate = Gate(8)
        self.mix = nn.Conv2d(8, 8, 1)
        self.groups = nn.GroupNorm(2, 8)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of ``(batch, 3, 16, 16)``."""
        x = self.act(self.norm(self.stem(x)))
        x = x + self.gate(F.hardswish(self.norm2(self.depthwise(x))))
        x = F.mish(self.groups(self.mix(x)))
        scores: torch.Tensor = self.head(self.drop(self.pool(x).flatten(1)))
        return scores


class Attention(nn.Module):
    """Self-attention through PyTorch's fused kernel."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attends over the tokens of ``(batch, tokens, width)``."""
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = qkv.unbind(0)
        x = F.scaled_dot_product_attention(query, key, value)
        result: torch.Tensor = self.proj(x.transpose(1, 2).reshape(batch, tokens, width))
        return result


class DropPath(nn.Module):
    """Stochastic depth, as timm has it."""

    def __init__(self, drop_prob: float) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Drops whole samples."""
        if not self.training:
            return x
        kept = 1 - self.drop_prob
        mask = x.new_empty((x.shape[0], 1, 1)).bernoulli_(kept)
        return x * mask.div_(kept)


class Block(nn.Module):
    """A transformer's block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, 2)
        self.path = DropPath(0.1)
        self.norm2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of ``(batch, tokens, width)``."""
        x = x + self.path(self.attn(self.norm1(x)))
        result: torch.Tensor = x + self.fc2(self.act(self.fc1(self.norm2(x))))
        return result


class Tokens(nn.Module):
    """A vision transformer of one block."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 4, stride=4)
        self.cls_token = nn.Parameter(torch.randn(1, 1, 8))
        self.pos_embed = nn.Parameter(torch.randn(1, 17, 8))
        self.block = Block(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of ``(batch, 3, 16, 16)``."""
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), 1) + self.pos_embed
        scores: torch.Tensor = self.head(self.block(x)[:, 0])
        return scores


NETWORKS: dict[str, type[nn.Module]] = {"convolutions": Convolutions, "tokens": Tokens}
"""Networks by name; each takes ``(batch, 3, 16, 16)``."""
