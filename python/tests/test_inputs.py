"""What a capture takes: one tensor or many, nested or named, with a loss or without."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import plimsoll_gpu
from plimsoll_gpu import CaptureError, CaptureWarning, capture


class Two(nn.Module):
    """Takes an image and a label, one of them optional."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(8, 4)
        self.names = nn.Embedding(10, 4)

    def forward(self, image: torch.Tensor, label: torch.Tensor | None = None, twice: bool = False) -> Any:
        features = self.body(image)
        if label is not None:
            features = features + self.names(label)
        return {"features": [features, (features * 2,)] if twice else features, "nothing": None}


IMAGE, LABEL = torch.empty(2, 8), torch.empty(2, dtype=torch.long)


def test_the_function_and_the_module_share_a_name() -> None:
    from plimsoll_gpu.capture import capture as from_the_module

    assert plimsoll_gpu.capture is capture is from_the_module


@pytest.mark.parametrize(
    "inputs", [[IMAGE, LABEL], (IMAGE, LABEL), {"label": LABEL, "image": IMAGE}, UserDict(image=IMAGE, label=LABEL)]
)
def test_several_inputs_come_by_position_or_by_name(inputs: Any) -> None:
    graph = capture(Two(), inputs)
    shapes = {tensor["name"]: tensor["shape"] for tensor in graph["inputs"]}
    assert shapes == {"image": ["batch", 8], "label": ["batch"]}
    assert graph["outputs"] == ["add"]


def test_an_argument_that_is_no_tensor_is_passed_on() -> None:
    assert capture(Two(), {"image": IMAGE, "twice": True})["outputs"] == ["body", "mul"]


def test_nested_inputs_are_named_by_their_place() -> None:
    class Sums(nn.Module):
        def forward(self, batch: Any) -> torch.Tensor:
            return batch["images"][0] + batch["images"][1] * batch["shift"]

    graph = capture(Sums(), {"images": [IMAGE, IMAGE], "shift": torch.empty(8)})
    shapes = {tensor["name"]: tensor["shape"] for tensor in graph["inputs"]}
    assert shapes == {"batch.images.0": ["batch", 8], "batch.images.1": ["batch", 8], "batch.shift": [8]}


@pytest.mark.parametrize("inputs", [[], [IMAGE, LABEL, True, 4], {"image": IMAGE, "picture": IMAGE}, {"image": 3}])
def test_inputs_that_do_not_fit_are_refused(inputs: Any) -> None:
    with pytest.raises(CaptureError, match="inputs"):
        capture(Two(), inputs)


def test_a_data_class_is_looked_into() -> None:
    @dataclass
    class Result:
        logits: torch.Tensor
        note: str = ""

    class Wraps(nn.Module):
        def forward(self, x: torch.Tensor) -> Result:
            return Result(x.relu())

    assert capture(Wraps(), IMAGE)["outputs"] == ["relu"]


def test_a_loss_is_part_of_the_graph() -> None:
    graph = capture(nn.Linear(8, 4), IMAGE, loss=F.cross_entropy, target=LABEL)
    assert [tensor["name"] for tensor in graph["inputs"]] == ["input", "target"]
    assert [node["op"] for node in graph["nodes"]] == ["linear", "log_softmax", "nll_loss_forward"]
    assert graph["outputs"] == ["nll_loss_forward"]
    assert graph["nodes"][-1]["outputs"][0]["shape"] == []


def test_a_loss_may_need_no_target() -> None:
    graph = capture(nn.Linear(8, 4), IMAGE, loss=lambda output: output.square().mean())
    assert graph["nodes"][-1]["op"] == "reduce"


def test_a_model_of_transformers_may_return_its_loss() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=50, **sizes)
    tokens = torch.empty(1, 12, dtype=torch.long)
    model = transformers.BertForMaskedLM(config)
    assert capture(model, {"input_ids": tokens})["nodes"][-1]["outputs"][0]["shape"] == ["batch", 12, 50]
    graph = capture(model, {"input_ids": tokens, "attention_mask": tokens, "labels": tokens})
    outputs = {tensor["name"]: tensor for node in graph["nodes"] for tensor in node["outputs"]}
    assert [outputs[name]["shape"] for name in graph["outputs"]] == [[]]


@pytest.mark.parametrize("device", ["cuda", "meta"])
def test_casts_of_an_autocast_region_are_nodes(device: str) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(8, 8)
            self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
            self.norm = nn.LayerNorm(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast(device, torch.bfloat16):
                x = self.body(self.body(x))
                x = self.norm(x)
                with torch.autocast(device, enabled=False):
                    x = x @ x.transpose(1, 2)
                return self.attend(x, x, x, need_weights=False)[0]

    nodes = capture(Mixed(), torch.empty(1, 8, 8))["nodes"]
    products = [node["outputs"][0].get("dtype") for node in nodes if node["op"] == "mat_mul"]
    assert products[:3] == ["bfloat16", "bfloat16", None], "two layers inside, and a product where it is off"
    (norm,) = (node for node in nodes if node["op"] == "layer_norm")
    assert "dtype" not in norm["outputs"][0]
    casts = [node for node in nodes if node["op"] == "copy" and node.get("weights") == ["body.weight"]]
    assert len(casts) == 1, "a weight is cast once"
    assert nodes[-1]["outputs"][0]["dtype"] == "bfloat16"


def test_autocast_is_as_it_was_after_a_capture() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        capture(nn.Linear(8, 4), IMAGE)
        assert torch.is_autocast_enabled("cpu")
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


def test_checkpointed_modules_are_captured_once() -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, 8), nn.GELU())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.body, x, use_reentrant=False)

    assert [node["name"] for node in capture(Checkpointed(), IMAGE)["nodes"]] == ["body.0", "body.1"]


@pytest.mark.parametrize(
    ("function", "ops", "asked"),
    [
        (lambda x: x.relu() if x.isnan().any() else x.tanh(), ["activation"], "taken as False"),
        (lambda x: x.tanh() if (x > 0).all() else x.relu(), ["activation"], "taken as True"),
        (lambda x: x.relu() if x.sum() > 0 else x.tanh(), ["activation"], "taken as False"),
        (lambda x: x.tanh() if torch.equal(x, x + 1) else x.relu(), ["activation"], "taken as equal"),
        (lambda x: x[x > 0].tanh(), ["binary", "nonzero", "view", "gather", "activation"], "as many results"),
    ],
)
def test_what_depends_on_values_is_assumed_and_said(function: Any, ops: list[str], asked: str) -> None:
    class Asks(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    with pytest.warns(CaptureWarning, match=asked):
        nodes = capture(Asks(), IMAGE)["nodes"]
    assert [node["op"] for node in nodes] == ops
    assert nodes[-1]["attributes"] == {"function": "tanh"}


def test_layers_that_are_skipped_by_chance_are_not() -> None:
    class Drops(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if torch.rand([]) < 0.2 else x.relu()

    assert len(capture(Drops(), IMAGE)["nodes"]) == 1


def test_values_on_the_host_are_known() -> None:
    class Picks(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            columns = torch.tensor([True, False] * 4).nonzero()[:, 0].tolist()
            return x[:, columns[1] : columns[3]].relu()

    assert capture(Picks(), IMAGE)["nodes"][-1]["outputs"][0]["shape"] == ["batch", 4]


def test_values_of_buffers_are_known() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("is_rectified", torch.tensor(True))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.relu() if self.is_rectified else x.tanh()

    assert capture(Branches(), IMAGE)["nodes"][0]["attributes"] == {"function": "relu"}
