"""Captures a model as a graph: the function and the command line."""

from __future__ import annotations

import argparse
import copy
import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from plimsoll_gpu.batch import FIRST, SECOND, with_symbolic_batch
from plimsoll_gpu.graph import CaptureError, Graph, Json
from plimsoll_gpu.models import HEADS, Request, build
from plimsoll_gpu.record import record
from plimsoll_gpu.tidy import tidy

Inputs = torch.Tensor | Sequence[torch.Tensor] | Mapping[str, torch.Tensor]


def capture(model: nn.Module, example_inputs: Inputs, name: str | None = None) -> Json:
    """The forward computation graph of a model in training mode, as a JSON object.

    Nothing is computed: a copy of the model, without its weights, runs on the meta device. It runs twice, at two
    batch sizes, to tell which extents grow with the batch.

    Args:
        model: The model, on any device; built under ``torch.device("meta")`` it takes no memory.
        example_inputs: What ``forward`` takes: one tensor, several, or tensors by argument. Only shapes and
            types count. The first dimension of each must be the batch; its extent does not matter.
        name: What to call the graph; the model's class if not given.

    Raises:
        CaptureError: The forward pass needs values, or its shapes are not multiples of the batch.
    """
    model = _on_meta(model)
    inputs = _by_argument(model, example_inputs)
    name = name or type(model).__name__
    first, second = (_record_at(batch, model, inputs, name) for batch in (FIRST, SECOND))
    graph = with_symbolic_batch(first, second)
    graph.check()
    return graph.to_json()


def to_text(graph: Json) -> str:
    """A graph as compact JSON."""
    return json.dumps(graph, separators=(",", ":"), ensure_ascii=False) + "\n"


def _record_at(batch: int, model: nn.Module, inputs: Mapping[str, torch.Tensor], name: str) -> Graph:
    at_batch = {
        argument: torch.empty(batch, *tensor.shape[1:], dtype=tensor.dtype, device="meta")
        for argument, tensor in inputs.items()
    }
    graph = record(model, at_batch, name)
    tidy(graph)
    return graph


def _on_meta(model: nn.Module) -> nn.Module:
    """A copy of a model with meta tensors for its weights."""
    weights: dict[int, Any] = {}
    for parameter in model.parameters():
        weights[id(parameter)] = nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
    for buffer in model.buffers():
        weights[id(buffer)] = buffer.detach().to("meta")
    return copy.deepcopy(model, weights)


def _by_argument(model: nn.Module, inputs: Inputs) -> dict[str, torch.Tensor]:
    if isinstance(inputs, torch.Tensor):
        inputs = [inputs]
    if isinstance(inputs, Mapping):
        named = dict(inputs)
    else:
        named = dict(inspect.signature(model.forward).bind(*inputs).arguments)
    for argument, tensor in named.items():
        if not isinstance(tensor, torch.Tensor) or tensor.dim() == 0:
            raise CaptureError(f"input `{argument}`: expected a tensor whose first dimension is the batch")
    return named


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m plimsoll_gpu.capture",
        description="Captures a model as a Plimsoll graph, without weights and without a GPU.",
    )
    parser.add_argument("model", help="torchvision:NAME, timm:NAME or hf:NAME, such as torchvision:resnet50")
    parser.add_argument(
        "--input", metavar="CxHxW", help="input of one sample (default: the model's own, or 3x224x224)"
    )
    parser.add_argument("--tokens", type=int, default=512, help="tokens of one sample (default: %(default)s)")
    parser.add_argument("--head", choices=sorted(HEADS), default="causal-lm", help="head of an hf model")
    parser.add_argument(
        "--option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="argument of the model's constructor, such as aux_logits=False; may be repeated",
    )
    parser.add_argument("--name", help="what to call the graph (default: the model's name)")
    parser.add_argument("-o", "--output", type=Path, help="file to write (default: standard output)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns its exit status."""
    options: Any = _parser().parse_args(arguments)
    try:
        request = Request.parse(options.model, options.input, options.tokens, options.head, options.option)
        model, inputs = build(request)
        text = to_text(capture(model, inputs, options.name or request.name))
    except CaptureError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if options.output is None:
        sys.stdout.write(text)
    else:
        options.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
