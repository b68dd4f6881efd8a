"""Captures of models from libraries, and the graph files in ``data/graphs``."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest

from plimsoll_gpu import capture, to_text
from plimsoll_gpu.capture.__main__ import main
from plimsoll_gpu.graph import CaptureError
from plimsoll_gpu.models import Request, build
from plimsoll_gpu.published import PUBLISHED

GRAPHS = Path(__file__).parents[2] / "data" / "graphs"


def parameters(graph: dict[str, Any]) -> int:
    return sum(prod(weight["shape"]) for weight in graph["weights"] if weight.get("kind") != "buffer")


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_model_is_captured_as_its_file_says(name: str) -> None:
    request = PUBLISHED[name]
    pytest.importorskip({"hf": "transformers"}.get(request.library, request.library))
    model, inputs = build(request)
    graph = capture(model, inputs, name)
    assert parameters(graph) == sum(parameter.numel() for parameter in model.parameters())
    assert len(graph["weights"]) == len([*model.parameters(), *model.buffers()])
    assert parameters(graph) == parameters(json.loads((GRAPHS / f"{name}.json").read_text()))


def test_stochastic_depth_is_one_node() -> None:
    pytest.importorskip("torchvision")
    model, inputs = build(Request("torchvision", "efficientnet_b0"))
    ops = [node["op"] for node in capture(model, inputs)["nodes"]]
    assert ops.count("stochastic_depth") == 9


def test_the_command_line_writes_a_graph(tmp_path: Path) -> None:
    pytest.importorskip("torchvision")
    path = tmp_path / "graph.json"
    assert main(["torchvision:resnet18", "--input", "3x64x64", "--option", "num_classes=7", "-o", str(path)]) == 0
    graph = json.loads(path.read_text())
    assert path.read_text() == to_text(graph)
    assert graph["name"] == "resnet18"
    assert graph["nodes"][-1]["outputs"] == [{"name": "fc", "shape": ["batch", 7]}]


@pytest.mark.parametrize(
    "model",
    [
        "resnet50",
        "nowhere:resnet50",
        "json:resnet50",
        "torchvision:resnet5000",
        "timm:resnet5000",
        "hf:bert-tiny",
        "hf:/nowhere/config.json",
    ],
)
def test_an_unknown_model_is_an_error(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torchvision")
    pytest.importorskip("transformers")
    assert main([model]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")


@pytest.mark.parametrize("shape", ["3x224xhigh", "3x0x224", "3x-1x224", ""])
def test_a_malformed_input_is_an_error(shape: str) -> None:
    with pytest.raises(CaptureError, match=f"input `{shape}`"):
        Request.parse("torchvision:resnet50", shape, None, None, [])


def test_a_malformed_count_of_tokens_is_an_error() -> None:
    with pytest.raises(CaptureError, match="tokens 0"):
        Request.parse("hf:gpt2", None, 0, None, [])


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torchvision")
    assert main(["torchvision:alexnet", "-o", str(tmp_path / "no" / "folder.json")]) == 1
    assert capsys.readouterr().err.startswith("error: ")
