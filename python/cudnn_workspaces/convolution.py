"""A convolution of a training step, in the terms in which PyTorch hands it to cuDNN."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Direction(Enum):
    """Which of the three convolutions of a training step."""

    FORWARD = "forward"
    DATA_GRADIENT = "data_gradient"
    FILTER_GRADIENT = "filter_gradient"


class Precision(Enum):
    """The elements of all three tensors, and whether fp32 may run on tensor cores. Accumulation is fp32 in all."""

    FP32_TF32 = "fp32_tf32"
    """PyTorch's default for fp32 convolutions (``torch.backends.cudnn.allow_tf32``)."""
    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return 2 if self in (Precision.FP16, Precision.BF16) else 4


class Layout(Enum):
    """The order of the tensors in memory."""

    NCHW = "nchw"
    NHWC = "nhwc"


@dataclass(frozen=True)
class Shape:
    """Sizes of a 2-D convolution. Strides and dilations are the same in both directions, as in most models."""

    n: int
    c_in: int
    h: int
    w: int
    c_out: int
    kernel_h: int
    kernel_w: int
    stride: int = 1
    padding_h: int = 0
    padding_w: int = 0
    dilation: int = 1
    groups: int = 1

    def __post_init__(self) -> None:
        for name in ("n", "c_in", "h", "w", "c_out", "kernel_h", "kernel_w", "stride", "dilation", "groups"):
            if getattr(self, name) < 1:
                raise ValueError(f"convolution: {name} is {getattr(self, name)}, expected at least 1")
        if self.c_in % self.groups or self.c_out % self.groups:
            raise ValueError(
                f"convolution: {self.groups} groups do not divide {self.c_in} input and {self.c_out} output channels"
            )
        if self.output_h < 1 or self.output_w < 1:
            raise ValueError(
                f"convolution: the output would be {self.output_h} x {self.output_w}, expected at least 1 x 1"
            )

    @property
    def output_h(self) -> int:
        """Height of the output."""
        return (self.h + 2 * self.padding_h - self.dilation * (self.kernel_h - 1) - 1) // self.stride + 1

    @property
    def output_w(self) -> int:
        """Width of the output."""
        return (self.w + 2 * self.padding_w - self.dilation * (self.kernel_w - 1) - 1) // self.stride + 1

    @property
    def input_dimensions(self) -> tuple[int, int, int, int]:
        """Batch, channels, height, width."""
        return (self.n, self.c_in, self.h, self.w)

    @property
    def output_dimensions(self) -> tuple[int, int, int, int]:
        """Batch, channels, height, width."""
        return (self.n, self.c_out, self.output_h, self.output_w)

    @property
    def filter_dimensions(self) -> tuple[int, int, int, int]:
        """Output channels, input channels of a group, height, width."""
        return (self.c_out, self.c_in // self.groups, self.kernel_h, self.kernel_w)


def strides_of(dimensions: tuple[int, int, int, int], layout: Layout) -> tuple[int, int, int, int]:
    """Strides, in elements, of a dense tensor."""
    _, c, h, w = dimensions
    return (c * h * w, h * w, w, 1) if layout is Layout.NCHW else (c * h * w, 1, w * c, c)
