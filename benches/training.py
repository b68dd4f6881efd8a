"""One epoch of training in Plimsoll against the same network in PyTorch, side by side on the same cores.

    cargo build --release --example epoch
    python benches/training.py target/release/examples/epoch

Both train the Transformer of the GPUMemNet configs in fp32 with AdamW and gradient clipping per tensor, on steps of
the same shapes. They take turns, and the ratio is that of the medians over the epochs after the first.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time

import torch
from torch import nn
from torch.nn import functional as F


LABELS = 4
LEVELS = torch.tensor([0.9, 0.95, 0.99])


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(F.gelu(self.first(self.norm(x))))


class Network(nn.Module):
    """The network of `plimsoll_model::network::TransformerNetwork`, layer by layer."""

    def __init__(self, settings: dict, widths: dict) -> None:
        super().__init__()
        width, hidden = settings["width"], settings["hidden"]
        self.token = nn.Embedding(widths["tokens"], width)
        self.numbers = nn.Linear(widths["layer"], width)
        layer = nn.TransformerEncoderLayer(
            width, settings["heads"], settings["feed_forward"], dropout=0.0,
            activation="gelu", batch_first=True, norm_first=True,
        )
        self.encoder = nn.TransformerEncoder(layer, settings["layers"], enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.input = nn.Linear(width + widths["summary"] + widths["gpu"], hidden)
        self.blocks = nn.Sequential(*[Residual(hidden) for _ in range(settings["blocks"])])
        self.utilisation_input = nn.Linear(width + widths["summary"] + widths["gpu"], hidden)
        self.utilisation_blocks = nn.Sequential(*[Residual(hidden) for _ in range(settings["blocks"])])
        joined = hidden + widths["gpu"]
        self.memory = nn.Linear(joined, hidden)
        self.memory_label = nn.Linear(LABELS, hidden, bias=False)
        self.memory_output = nn.Linear(hidden, 4)
        spread = hidden // 2
        self.spread_input = nn.Linear(widths["summary"], spread)
        self.spread_block = Residual(spread)
        self.spread_label = nn.Linear(LABELS, spread, bias=False)
        self.spread_output = nn.Linear(spread, 3)
        self.utilisation = nn.Sequential(nn.Linear(joined, hidden), nn.GELU(), nn.Linear(hidden, 6))

    def forward(self, batch: dict) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        x = self.token(batch["tokens"]) + self.numbers(batch["layers"])
        x = self.encoder(x, src_key_padding_mask=batch["padding"])
        mean = self.norm((x * batch["share"]).sum(1))
        x = torch.cat([mean, batch["summary"], batch["gpu"]], 1)
        joined = torch.cat([self.blocks(F.gelu(self.input(x))), batch["gpu"]], 1)
        utilisation = torch.cat([self.utilisation_blocks(F.gelu(self.utilisation_input(x))), batch["gpu"]], 1)
        ranges = torch.tensor([1.2, 2.0, 1.2, 4.0])
        memory = self.memory_output(F.gelu(self.memory(joined) + self.memory_label(batch["label"])))
        bounded = ranges * torch.tanh(memory / ranges)
        log_memory = (batch["simulated"] * bounded[:, :3].exp() * batch["parts"]).sum(1).clamp_min(1.0).log()
        spread = self.spread_block(F.gelu(self.spread_input(batch["summary"]))) + self.spread_label(batch["label"])
        steps = (4 * torch.tanh(self.spread_output(spread) / 4) - 4).exp()
        return log_memory, bounded[:, 3] - 4, steps.cumsum(1), self.utilisation(utilisation) + batch["roofline"]


def make_batch(rows: int, layers: int, widths: dict) -> dict:
    lengths = torch.randint(max(1, layers - 2), layers + 1, (rows, 1))
    lengths[0] = layers
    padding = torch.arange(layers)[None] >= lengths
    return {
        "tokens": torch.randint(0, widths["tokens"], (rows, layers)),
        "layers": torch.randn(rows, layers, widths["layer"]),
        "padding": padding,
        "share": ((~padding).float() / lengths)[..., None],
        "summary": torch.randn(rows, widths["summary"]),
        "gpu": torch.randn(rows, widths["gpu"]),
        "simulated": torch.rand(rows, 3) * 1e4,
        "parts": torch.tensor([[1.0, 1.0, 0.0]]).expand(rows, 3),
        "label": torch.zeros(rows, LABELS),
        "roofline": torch.zeros(rows, 6),
        "log_memory": torch.rand(rows) * 3 + 6,
        "utilisation": torch.rand(rows, 6),
    }


def torch_epoch(network: Network, optimizer: torch.optim.Optimizer, batches: list[dict]) -> float:
    start = time.perf_counter()
    for batch in batches:
        log_memory, log_scale, quantiles, logits = network(batch)
        above = batch["log_memory"] - log_memory
        z = above / log_scale.exp()
        loss = (log_scale + z + 2 * F.softplus(-z)).mean() + 30 * above.abs().mean()
        gap = above.detach()[:, None] - quantiles
        pinball = torch.maximum(gap * LEVELS, gap * (LEVELS - 1)).sum(1)
        loss = loss + (pinball / log_scale.detach().exp().clamp_min(1e-3)).mean()
        loss = loss + 50 * F.binary_cross_entropy_with_logits(logits, batch["utilisation"])
        optimizer.zero_grad()
        loss.backward()
        for parameter in network.parameters():
            nn.utils.clip_grad_norm_(parameter, 1.0)
        optimizer.step()
        loss.item()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example", help="the built `epoch` example")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    ours, theirs = [], []
    for _ in range(arguments.turns):
        command = [arguments.example, str(arguments.rows), "3"]
        environment = {"RAYON_NUM_THREADS": str(arguments.threads)}
        output = subprocess.run(command, check=True, capture_output=True, env=environment).stdout
        told = json.loads(output)
        ours += told["seconds"][1:]
        torch.manual_seed(0)
        network = Network(told["network"], told["widths"])
        optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=1e-3)
        batches = [make_batch(rows, layers, told["widths"]) for rows, layers in told["shapes"]]
        torch_epoch(network, optimizer, batches)
        theirs += [torch_epoch(network, optimizer, batches) for _ in range(2)]
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(json.dumps({
        "rows": arguments.rows,
        "steps": len(told["shapes"]),
        "threads": arguments.threads,
        "plimsoll_seconds": [round(value, 3) for value in ours],
        "torch_seconds": [round(value, 3) for value in theirs],
        "ratio": round(ratio, 3),
        "torch": torch.__version__,
    }))


if __name__ == "__main__":
    main()
