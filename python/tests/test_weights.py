"""What a capture says of operators on weights: views are the weight, results are nodes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from plimsoll_gpu import capture


class Standardised(nn.Conv2d):
    """A convolution whose weight is normalised before each use."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = F.batch_norm(self.weight.reshape(1, self.out_channels, -1), None, None, training=True)
        return F.conv2d(x, weight.reshape_as(self.weight))


def test_standardising_a_weight_is_a_node() -> None:
    graph = capture(Standardised(3, 8, 3, bias=False), torch.empty(1, 3, 8, 8))
    norm, view, convolution = graph["nodes"]
    assert (norm["op"], norm["inputs"], norm["weights"]) == ("batch_norm", [], ["weight"])
    assert norm["outputs"][0]["shape"] == [1, 8, 27]
    assert (view["op"], view["inputs"]) == ("view", [norm["name"]])
    assert (convolution["op"], convolution["inputs"]) == ("conv", ["x", view["name"]])


class Attends(nn.Module):
    """Attention with a class token, biases of positions from a table, and a bias put together of parts."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.empty(1, 1, 8))
        self.table = nn.Parameter(torch.empty(25, 2))
        self.register_buffer("positions", torch.zeros(25, dtype=torch.long))
        self.weight = nn.Parameter(torch.empty(24, 8))
        self.q_bias, self.v_bias = nn.Parameter(torch.empty(8)), nn.Parameter(torch.empty(8))
        self.register_buffer("k_bias", torch.zeros(8), persistent=False)
        self.scale = nn.Parameter(torch.empty(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        bias = torch.cat([self.q_bias, self.k_bias, self.v_bias])
        q, k, v = F.linear(x, self.weight, bias).view(len(x), 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind()
        mask = self.table[self.positions].view(5, 5, 2).permute(2, 0, 1)
        x = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).reshape(len(x), 5, 8)
        return x * self.scale


def test_only_results_from_weights_are_nodes() -> None:
    nodes = {node["name"]: node for node in capture(Attends(), torch.empty(1, 4, 8))["nodes"]}
    assert (nodes["cat"]["inputs"], nodes["cat"]["weights"]) == (["x"], ["token"])
    assert (nodes["cat_2"]["inputs"], nodes["cat_2"]["weights"]) == ([], ["q_bias", "k_bias", "v_bias"])
    linear = next(node for node in nodes.values() if node["op"] == "linear")
    assert (linear["inputs"], linear["weights"]) == (["cat", "cat_2"], ["weight"])
    look_up = next(node for node in nodes.values() if node["op"] == "gather")
    assert (look_up["inputs"], look_up["weights"]) == ([], ["table", "positions"])
    assert nodes["mul"]["weights"] == ["scale"]


def test_a_tensor_that_is_no_weight_is_a_buffer() -> None:
    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept: torch.Tensor | None = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.kept is None:
                self.kept = torch.arange(8, device=x.device).float()
            return x + self.kept

    graph = capture(Keeps(), torch.empty(1, 8))
    assert graph["weights"] == [{"name": "unregistered_1", "shape": [8], "kind": "buffer"}]
    assert [node["op"] for node in graph["nodes"]] == ["binary"], "as in every step but the first"


@pytest.mark.parametrize("make", [nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm])
def test_a_parametrised_weight_is_computed(make: Any) -> None:
    graph = capture(make(nn.Linear(8, 6)), torch.empty(1, 8))
    assert any(not node["inputs"] and node["weights"] for node in graph["nodes"])
    assert graph["outputs"] == [graph["nodes"][-1]["name"]]
