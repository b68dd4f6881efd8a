"""Draws convolutions such as the training of CNNs runs: many ordinary ones, some odd ones, a few extreme ones.

Two kinds of draw: ``ANY`` lets all sizes vary on their own, so that every corner is seen; ``MODEL`` keeps them together
as architectures do, where channels grow as the image shrinks.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from enum import Enum

from cudnn_workspaces.convolution import Shape

MOST_TENSOR_BYTES = 4 * 2**30
"""Of an fp32 tensor."""
_RARELY_MORE_BYTES = 2**30
_USUAL_SIZES = (224, 112, 56, 28, 14, 7, 256, 128, 64, 32, 16, 8, 4, 299, 149, 147, 75, 73, 35, 17, 192, 96, 48, 24, 12)
_CHANNEL_STEPS = (64, 32, 16, 8, 4, 2, 1)
_CHANNEL_STEP_WEIGHTS = (16, 16, 14, 20, 12, 8, 14)
_KERNELS = ((1, 1), (3, 3), (5, 5), (7, 7), (2, 2), (4, 4), (11, 11), (1, 7), (7, 1), (1, 3), (3, 1))
_KERNEL_WEIGHTS = (28, 45, 9, 7, 2, 2, 1.5, 1.5, 1.5, 1.25, 1.25)
_RESOLUTIONS = (224, 32, 64, 96, 128, 160, 192, 256, 299, 320)
_RESOLUTION_WEIGHTS = (40, 12, 8, 4, 10, 4, 4, 8, 7, 3)
_MODEL_KERNELS = ((1, 1), (3, 3), (5, 5), (7, 7), (1, 7), (7, 1), (1, 3), (3, 1), (2, 2), (11, 11))
_MODEL_KERNEL_WEIGHTS = (45, 40, 5, 3, 1.5, 1.5, 1, 1, 1, 1)


class Kind(Enum):
    """How the sizes of a drawn convolution hang together."""

    ANY = "any"
    MODEL = "model"


def draw_shape(generator: random.Random, kind: Kind = Kind.ANY) -> Shape:
    """A convolution whose tensors are below 4 GiB, and mostly below 1 GiB."""
    draw: Callable[[random.Random], Shape | None] = _draw if kind is Kind.ANY else _draw_of_model
    while True:
        shape = draw(generator)
        if shape is None:
            continue
        largest = max(math.prod(tensor) for tensor in _tensors(shape)) * 4
        if largest < _RARELY_MORE_BYTES or (largest < MOST_TENSOR_BYTES and generator.random() < 0.25):
            return shape


def _tensors(shape: Shape) -> tuple[tuple[int, ...], ...]:
    return (shape.input_dimensions, shape.output_dimensions, shape.filter_dimensions)


def _draw(generator: random.Random) -> Shape | None:
    """A convolution of any size, or nothing where the drawn sizes do not fit each other."""
    kernel_h, kernel_w = generator.choices(_KERNELS, _KERNEL_WEIGHTS)[0]
    dilation = generator.choices((1, 2, 3, 4), (94, 4, 1, 1))[0] if kernel_h * kernel_w > 1 else 1
    c_in, c_out, groups = _channels(generator)
    h = _size(generator)
    padding_h, padding_w = _paddings(generator, dilation * (kernel_h - 1), dilation * (kernel_w - 1))
    try:
        return Shape(
            n=_batch(generator),
            c_in=c_in,
            h=h,
            w=h if generator.random() < 0.85 else _size(generator),
            c_out=c_out,
            kernel_h=kernel_h,
            kernel_w=kernel_w,
            stride=generator.choices((1, 2, 3, 4), (72, 24, 1, 3))[0],
            padding_h=padding_h,
            padding_w=padding_w,
            dilation=dilation,
            groups=groups,
        )
    except ValueError:
        return None


def _draw_of_model(generator: random.Random) -> Shape | None:
    """A convolution of some stage of an architecture, or nothing where the drawn sizes do not fit each other."""
    stage = generator.choices((0, 1, 2, 3, 4, 5), (12, 14, 20, 22, 20, 12))[0]
    size = -(-generator.choices(_RESOLUTIONS, _RESOLUTION_WEIGHTS)[0] // 2**stage)
    kernel_h, kernel_w = generator.choices(_MODEL_KERNELS, _MODEL_KERNEL_WEIGHTS)[0]
    same = generator.random() < 0.92
    c_in, c_out = _stage_channels(generator, stage), _stage_channels(generator, stage)
    relation = generator.random()
    if stage == 0 and relation < 0.6:
        c_in = generator.choices((3, 1), (9, 1))[0]
    elif relation < 0.3:
        c_out = c_in
    elif relation < 0.5:
        c_out = max(1, round(c_in * generator.choice((0.25, 0.5, 2, 4))))
    kind = generator.random()
    powers = generator.choices((1, 2, 4, 8, 16, 32, 64, 128, 256, 512), (3, 3, 4, 8, 14, 20, 20, 16, 9, 3))[0]
    try:
        return Shape(
            n=powers if kind < 0.65 else _batch(generator),
            c_in=c_in,
            h=size,
            w=size,
            c_out=min(c_out, 4096),
            kernel_h=kernel_h,
            kernel_w=kernel_w,
            stride=generator.choices((1, 2, 4), (84, 15, 1))[0],
            padding_h=kernel_h // 2 if same else 0,
            padding_w=kernel_w // 2 if same else 0,
        )
    except ValueError:
        return None


def _stage_channels(generator: random.Random, stage: int) -> int:
    """Around 40 channels in the first stage, twice as many in each further one; mostly multiples of 8."""
    channels = 40 * 2 ** (stage + generator.gauss(0, 1.2))
    step = generator.choices((64, 32, 16, 8, 4, 2, 1), (22, 22, 20, 20, 6, 3, 7))[0]
    return max(1, min(2048 // step, round(channels / step))) * step


def _log_uniform(generator: random.Random, least: float, most: float) -> int:
    return round(math.exp(generator.uniform(math.log(least), math.log(most))))


def _batch(generator: random.Random) -> int:
    """1 to 512: half of them powers of two or multiples of eight."""
    batch = _log_uniform(generator, 1, 512)
    kind = generator.random()
    if kind < 0.3:
        return 1 << round(math.log2(batch))
    return -(-batch // 8) * 8 if kind < 0.5 else batch


def _channel_count(generator: random.Random) -> int:
    """4 to 2,048, a multiple of a step that is drawn first."""
    step = generator.choices(_CHANNEL_STEPS, _CHANNEL_STEP_WEIGHTS)[0]
    return max(1, round(_log_uniform(generator, max(4, step), 2048) / step)) * step


def _channels(generator: random.Random) -> tuple[int, int, int]:
    """Input channels, output channels and groups; one in nine is a stem, one in twenty-five depthwise."""
    kind = generator.random()
    c_in = _channel_count(generator)
    if kind < 0.04:
        return c_in, c_in * generator.choices((1, 2), (9, 1))[0], c_in
    if kind < 0.08:
        groups = generator.choice((2, 4, 8, 16, 32, 64))
        c_in = -(-c_in // groups) * groups
        return c_in, c_in if generator.random() < 0.7 else 2 * c_in, groups
    if kind < 0.19:
        return generator.choices((1, 2, 3, 4, 6), (15, 3, 70, 9, 3))[0], min(_channel_count(generator), 512), 1
    relation = generator.random()
    if relation < 0.35:
        return c_in, c_in, 1
    if relation < 0.6:
        ratio = generator.choice((0.25, 0.5, 2, 4))
        return c_in, max(1, min(2048, round(c_in * ratio))), 1
    return c_in, _channel_count(generator), 1


def _size(generator: random.Random) -> int:
    """1 to 299 in height or width."""
    return generator.choice(_USUAL_SIZES) if generator.random() < 0.5 else _log_uniform(generator, 1, 256)


def _paddings(generator: random.Random, reach_h: int, reach_w: int) -> tuple[int, int]:
    """In four of five the padding that keeps the size; else none, or any small one."""
    kind = generator.random()
    if kind < 0.8:
        return reach_h // 2, reach_w // 2
    if kind < 0.92:
        return 0, 0
    padding = generator.choice((1, 2, 3))
    return padding, padding
