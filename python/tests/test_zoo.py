"""Real models of libraries, and the driver that captures them all."""

from __future__ import annotations

import json
import sys
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from plimsoll_gpu import CaptureError, CaptureWarning, capture
from plimsoll_gpu.capture.__main__ import main as capture_main
from plimsoll_gpu.huggingface import PUBLISHED
from plimsoll_gpu.models import Request, build
from plimsoll_gpu.zoo import capture_all, catalogue, main

OWN = """
import torch
from torch import nn

def both(width=4):
    return nn.Linear(8, width), torch.zeros(3, 8)

def alone():
    return nn.Conv2d(3, 8, 3)

def with_numbers():
    depths = [rate.item() for rate in torch.linspace(0, 1, 3)]
    assert depths[1] == 0.5
    return nn.Linear(8, len(depths)), torch.zeros(1, 8)

def neither():
    return 3
"""


def test_the_driver_keeps_what_is_there_and_goes_on_after_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torchvision")
    requests = [Request("torchvision", name) for name in ("no_such_model", "resnet18")]
    tally = capture_all(requests, tmp_path)
    assert (tally.captured, tally.present) == (1, 0)
    assert tally.failed == {"torchvision:no_such_model": "unknown model torchvision:no_such_model"}
    assert json.loads((tmp_path / "torchvision" / "resnet18.json").read_text())["name"] == "resnet18"
    assert [path.name for path in (tmp_path / "torchvision").iterdir()] == ["resnet18.json"]
    assert capture_all(requests[1:], tmp_path).present == 1
    assert main([str(tmp_path), "resnet18", "--only", "torchvision", "--again"]) == 0
    assert "1 captured" in capsys.readouterr().err


def test_a_graph_that_lacks_parameters_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torchvision")
    monkeypatch.setattr("plimsoll_gpu.zoo.parameters", lambda graph: 5)
    tally = capture_all([Request("torchvision", "alexnet")], tmp_path)
    assert tally.failed == {"torchvision:alexnet": "the graph has 5 parameters, the model 61100840"}
    assert not list(tmp_path.rglob("*"))


def test_a_name_that_no_library_knows_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torchvision")
    with pytest.raises(CaptureError, match="unknown model `resnet5000`"):
        catalogue("torchvision", ["resnet5000"])
    assert main(["anywhere", "resnet5000", "--only", "torchvision"]) == 1
    assert capsys.readouterr().err.startswith("error: ")


TIMM = {
    "resnetv2_50x1_bit": (25_549_352, "batch_norm"),
    "convit_tiny": (5_713_544, "softmax"),
    "efficientnet_cc_b0_4e": (13_308_362, "conv"),
    "gcresnext26ts": (10_478_800, "conv"),
    "halonet26t": (12_476_540, "mat_mul"),
    "levit_128s": (7_783_416, "batch_norm"),
    "swinv2_tiny_window8_256": (28_349_002, "clamp"),
    "volo_d1_224": (26_630_256, "im2col"),
}
"""Parameters of odd models at 1,000 classes, and an operator that each has."""


@pytest.mark.parametrize("name", TIMM)
def test_odd_models_of_timm_are_captured(name: str) -> None:
    pytest.importorskip("timm")
    model, inputs = build(Request("timm", name))
    graph = capture(model, inputs, name)
    expected = sum(parameter.numel() for parameter in model.parameters())
    counted = sum(prod(weight["shape"]) for weight in graph["weights"] if weight.get("kind") != "buffer")
    assert counted == expected
    assert TIMM[name][1] in {node["op"] for node in graph["nodes"]}


def test_an_image_has_the_size_that_the_model_was_made_for() -> None:
    pytest.importorskip("timm")
    _, (image,) = build(Request("timm", "vit_base_patch16_384"))
    assert image.shape == (1, 3, 384, 384)
    _, (image,) = build(Request("timm", "resnet18", (3, 32, 32)))
    assert image.shape == (1, 3, 32, 32)


@pytest.mark.parametrize(
    ("name", "losses", "boxes"),
    [("fasterrcnn_mobilenet_v3_large_320_fpn", 4, ["512*batch", 1024]), ("ssdlite320_mobilenet_v3_large", 2, None)],
)
def test_a_detector_is_captured_with_its_batch_folded(name: str, losses: int, boxes: Any) -> None:
    pytest.importorskip("torchvision")
    model, inputs = build(Request("torchvision", name))
    with pytest.warns(CaptureWarning, match="taken as False"):
        graph = capture(model, inputs)
    shapes = [tensor["shape"] for node in graph["nodes"] for tensor in node["outputs"]]
    assert graph["inputs"][0] == {"name": "images", "shape": ["batch", 3, 480, 640]}
    assert len(graph["outputs"]) == losses
    assert boxes is None or boxes in shapes
    assert any(weight["name"].startswith("backbone.") for weight in graph["weights"]), "names are the model's own"


def test_a_detector_of_ones_own_takes_a_list_of_images() -> None:
    pytest.importorskip("torchvision")
    from torchvision.models.detection import ssdlite320_mobilenet_v3_large

    with torch.device("meta"):
        model = ssdlite320_mobilenet_v3_large(weights_backbone=None, num_classes=5)
    with pytest.warns(CaptureWarning):
        graph = capture(model, [[torch.empty(3, 200, 300)], [{"boxes": torch.empty(1, 4)}]], "mine")
    assert (graph["name"], graph["inputs"][0]["shape"]) == ("mine", ["batch", 3, 200, 300])
    assert type(model).__name__ == "SSD"
    assert type(model.transform).__name__ == "GeneralizedRCNNTransform", "the model itself is left as it was"


FACTS = {
    "bert-base-uncased": 109_514_298,
    "gpt2": 124_439_808,
    "t5-small": 60_506_624,
    "flan-t5-base": 247_577_856,
    "opt-350m": 331_196_416,
    "mistral-7b": 7_241_732_096,
    "qwen2-0.5b": 494_032_768,
    "whisper-tiny": 37_760_640,
    "vit-base-patch16-224": 86_567_656,
}
"""Parameters as their publishers count them, tied ones once."""


@pytest.mark.parametrize("name", FACTS)
def test_a_published_configuration_has_its_parameters(name: str) -> None:
    pytest.importorskip("transformers")
    model, _ = build(Request("hf", name))
    assert sum(parameter.numel() for parameter in model.parameters()) == FACTS[name]


@pytest.mark.parametrize("name", ["distilgpt2", "t5-small", "whisper-tiny", "clip-vit-base-patch32", "resnet-50"])
def test_models_of_transformers_are_captured_from_their_configuration(name: str) -> None:
    pytest.importorskip("transformers")
    assert name in PUBLISHED
    model, inputs = build(Request("hf", name))
    graph = capture(model, inputs, name)
    assert len(graph["inputs"]) == len(inputs)
    assert graph["outputs"]


def test_a_configuration_file_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = sizes | {"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 50}
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    for path in (folder, folder / "config.json"):
        assert capture_main([f"hf:{path}", "--tokens", "12"]) == 0
        graph = json.loads(capsys.readouterr().out)
        assert graph["name"] == "tiny"
        assert graph["nodes"][-1]["outputs"][0]["shape"] == ["batch", 12, 50]
    (folder / "config.json").write_text("[]")
    assert capture_main([f"hf:{folder}"]) == 1
    assert "config.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        (["both"], ["batch", 4]),
        (["both", "--option", "width=5"], ["batch", 5]),
        (["alone", "--input", "3x8x8"], ["batch", 8, 6, 6]),
        (["with_numbers"], ["batch", 3]),
    ],
)
def test_a_model_of_ones_own_is_captured(
    arguments: list[str],
    shape: list[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "own_module.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    name, *rest = arguments
    assert capture_main([f"own_module:{name}", *rest]) == 0
    graph = json.loads(capsys.readouterr().out)
    assert graph["name"] == name
    assert graph["nodes"][-1]["outputs"][0]["shape"] == shape


@pytest.mark.parametrize(
    ("name", "word"), [("alone", "give --input or --tokens"), ("neither", "returns a int"), ("none", "no function")]
)
def test_a_function_that_makes_no_model_is_refused(
    name: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_module.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    assert capture_main([f"own_module:{name}"]) == 1
    assert word in capsys.readouterr().err


def test_nothing_is_made_but_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with a billion parameters is built where a constructor needs values."""

    class Large(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.linspace(0, 1, 3)[1].item()
            self.body = nn.ModuleList(nn.Linear(8192, 8192) for _ in range(16))

    module = ModuleType("large_module")
    module.large = lambda: (Large(), torch.zeros(1, 8192))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "large_module", module)
    model, _ = build(Request("large_module", "large"))
    assert model.scale == 0.5
    assert all(parameter.is_meta for parameter in model.parameters())
