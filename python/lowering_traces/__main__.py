"""Writes golden files: graphs as captured, and what PyTorch allocates in a step of them."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F

from lowering_traces.networks import CASES, Case
from lowering_traces.tracer import Trace, trace_step
from plimsoll_gpu.capture import capture
from plimsoll_gpu.cuda_kernels import kernels_of_cuda
from plimsoll_gpu.graph import Json
from plimsoll_gpu.steps import record_step

GOLDEN = Path(__file__).resolve().parents[2] / "crates/plimsoll-simulate/tests/golden"


def _cross_entropy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    scores = output.view(-1, output.shape[-1])
    if torch.is_autocast_enabled("cpu"):
        # A GPU takes logarithms of scores in fp32.
        return F.nll_loss(F.log_softmax(scores.float(), -1), target)
    return F.cross_entropy(scores, target)


def _rows(graph: Json, batch: int) -> int:
    """Rows of the output, each of which is scored against a class."""
    tensors = [tensor for node in graph["nodes"] for tensor in node["outputs"]]
    shape = next(tensor["shape"] for tensor in tensors if tensor["name"] == graph["outputs"][0])
    extents = (
        extent if isinstance(extent, int) else batch * int(extent.partition("*")[0]) if "*" in extent else batch
        for extent in shape[:-1]
    )
    return math.prod(extents)


RECORDED = frozenset(
    "adapter attention_biased attention_eager bert_tiny conv_transposed gate mobilenet_v3_small reduce_std "
    "stochastic_depth tied".split()
)
"""Cases whose graph carries the record of its step too."""


def record(name: str, case: Case) -> tuple[Json, Trace]:
    """The golden file of a case, and its trace."""
    mixed = case.precision.startswith("amp")
    with torch.device("cpu" if mixed else "meta"):
        model = case.build()
    model.train()
    with kernels_of_cuda():
        graph = capture(model, case.inputs(2), name)
    if name in RECORDED:
        argument = graph["inputs"][0]["name"]
        graph["steps"] = [record_step(model.to("meta"), {argument: case.inputs(2)}, graph)]
    if case.precision == "bf16":
        model.to(torch.bfloat16)
    if case.checkpointed:
        model.checkpointed = True  # type: ignore[assignment]
    inputs = case.inputs(case.batch)
    target = torch.empty(_rows(graph, case.batch), dtype=torch.int64, device="meta")
    if case.precision == "bf16" and not case.tokens:
        inputs = inputs.to(torch.bfloat16)
    if mixed:
        inputs, target = torch.zeros_like(inputs, device="cpu"), torch.zeros_like(target, device="cpu")
    trace = trace_step(model, [inputs], target, _cross_entropy, mixed)
    setup = {"batch_size": case.batch, "precision": case.precision, "activation_checkpointing": case.checkpointed}
    return {"setup": setup, "forward": trace.forward, "backward": trace.backward, "graph": graph}, trace


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m lowering_traces", description=__doc__)
    parser.add_argument("names", nargs="*", help="cases to record (default: all)")
    parser.add_argument("--to", type=Path, default=GOLDEN, help="folder of the golden files (default: %(default)s)")
    parser.add_argument("--show", action="store_true", help="print the operators that allocate and free instead")
    options = parser.parse_args(arguments)
    options.to.mkdir(parents=True, exist_ok=True)
    for name in options.names or CASES:
        golden, trace = record(name, CASES[name])
        if options.show:
            live = 0
            for change, operator in zip(trace.forward + trace.backward, trace.operators, strict=True):
                live += change
                print(f"{change:>12} {live:>12} {operator}")
            continue
        text = json.dumps(golden, separators=(",", ":")) + "\n"
        (options.to / f"{name}.json").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
