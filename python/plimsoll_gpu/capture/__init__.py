"""Captures a model as a graph. The command line is ``python -m plimsoll_gpu.capture``."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from plimsoll_gpu.batch import BATCHES, Batches, with_symbolic_batch
from plimsoll_gpu.graph import CaptureError, CaptureWarning, Graph, Json
from plimsoll_gpu.inputs import Example, tensors_of
from plimsoll_gpu.record import record
from plimsoll_gpu.tidy import tidy

__all__ = ["CaptureError", "CaptureWarning", "capture", "to_text"]

MAX_KNOWN = 1 << 20
"""Values of larger buffers are not looked at."""


def capture(
    model: nn.Module,
    example_inputs: Any,
    name: str | None = None,
    *,
    loss: Callable[..., Any] | None = None,
    target: Any = None,
) -> Json:
    """The forward computation graph of a model in training mode, as a JSON object.

    Nothing is computed: a copy of the model, without its weights, runs on the meta device. It runs twice, at two
    batch sizes, to tell which extents grow with the batch.

    Args:
        model: The model, on any device; built under ``torch.device("meta")`` it takes no memory.
        example_inputs: What ``forward`` takes: one tensor, a sequence of arguments, or a mapping by argument;
            arguments may be nested lists and mappings. Only shapes and types of tensors count. The first
            dimension is the batch in all that have the first tensor's; its extent does not matter. Detectors of
            torchvision take a list of images, of which the first counts.
        name: What to call the graph; the model's class if not given.
        loss: Makes the loss of ``loss(output)``, or of ``loss(output, target)``, to be part of the graph. A model
            that returns its loss, as those of Hugging Face do when they are given labels, needs none.
        target: What ``loss`` takes beside the model's output, like an input.

    Returns:
        The graph, as ``docs/graph-format.md`` describes it.

    Raises:
        CaptureError: The forward pass needs numbers that are not known without computing, its shapes are not
            multiples of the batch, or it fails.

    Warns:
        CaptureWarning: The graph rests on an assumption, such as which way a branch goes.
    """
    name = name or type(model).__name__
    model, known = _on_meta(model)
    if _is_detector(model):
        from plimsoll_gpu.detection import as_one_batch

        example_inputs = as_one_batch(model, next(tensors_of(example_inputs)).shape[-3:])
    example = Example.of(model, example_inputs, target)

    def at(batch: int) -> Graph:
        graph = record(model, example.at(batch), name, loss, known)
        tidy(graph)
        return graph

    batches: Batches = getattr(model, "batches", BATCHES)
    first, second = (at(batch) for batch in batches)
    if len(first.nodes) != len(second.nodes):
        first = at(batches[0])  # Some models keep constants from their first step; what counts are those after it.
    graph = with_symbolic_batch(first, second, batches)
    graph.check()
    return graph.to_json()


def to_text(graph: Json) -> str:
    """A graph as compact JSON."""
    return json.dumps(graph, separators=(",", ":"), ensure_ascii=False) + "\n"


def _is_detector(model: nn.Module) -> bool:
    """Whether a model is one of torchvision's detectors, which may not be installed."""
    return any(kind.__module__.startswith("torchvision.models.detection.") for kind in type(model).__mro__)


def _on_meta(model: nn.Module) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """A copy of a model with meta tensors for its weights; and small buffers' values by name."""
    weights: dict[int, Any] = {}
    for parameter in model.parameters():
        weights[id(parameter)] = nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
    known = {}
    for name, buffer in model.named_buffers():
        weights[id(buffer)] = buffer.detach().to("meta")
        if buffer.device.type != "meta" and buffer.numel() <= MAX_KNOWN:
            known[name] = buffer.detach().cpu()
    return copy.deepcopy(model, weights), known
