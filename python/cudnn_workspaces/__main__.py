"""``python -m cudnn_workspaces``: asks for one convolution, or writes a table of many."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from cudnn_workspaces.convolution import Direction, Layout, Precision, Shape
from cudnn_workspaces.devices import CATALOGUE, DEVICES, load_devices
from cudnn_workspaces.library import CudnnError, Library
from cudnn_workspaces.plans import Plan, Planner
from cudnn_workspaces.sampling import Kind


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns the exit status: 2 for a request that cannot be met."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "query":
            _query(options)
        else:
            _generate(options)
    except (CudnnError, ValueError, OSError) as error:
        print(f"cudnn_workspaces: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("cudnn_workspaces", description=sys.modules["cudnn_workspaces"].__doc__)
    parser.add_argument("--catalogue", type=Path, default=CATALOGUE, help="the GPUs' figures")
    parser.add_argument("--cudnn", type=Path, help="folder with nvidia/cudnn (default: this Python's packages)")
    parser.add_argument("--cuda", type=Path, help="folder with CUDA's nvidia packages (default: as for cuDNN)")
    commands = parser.add_subparsers(dest="command", required=True)

    query = commands.add_parser("query", help="one convolution: its plans and their bytes")
    query.add_argument("input", help="of the input: 64x3x224x224 (batch, channels, height, width)")
    query.add_argument("filter", help="of the filter: 64x7x7 (output channels, height, width)")
    query.add_argument("--stride", type=int, default=1)
    query.add_argument("--padding", default="0", help="3, or 0x3 for height and width")
    query.add_argument("--dilation", type=int, default=1)
    query.add_argument("--groups", type=int, default=1)
    query.add_argument("--gpu", default="a100-40")
    query.add_argument("--precision", choices=[kind.value for kind in Precision], default="fp32_tf32")
    query.add_argument("--layout", choices=[kind.value for kind in Layout], default="nchw")
    query.add_argument("--json", action="store_true", help="for programs")

    generate = commands.add_parser("generate", help="a table of drawn convolutions, in Parquet")
    generate.add_argument("output", type=Path, help="a .parquet file; parts lie beside it")
    generate.add_argument("--shapes", type=int, default=10_000, help="three rows each (default: %(default)s)")
    generate.add_argument("--seed", type=int, default=0)
    generate.add_argument(
        "--kind", choices=[kind.value for kind in Kind], default="any", help="how sizes hang together"
    )
    generate.add_argument("--gpu", nargs="+", default=DEVICES, help="each shape is asked for one of them")
    generate.add_argument(
        "--format", nargs="+", default=["fp32_tf32-nchw"], help="PRECISION-LAYOUT, each shape in one of them"
    )
    return parser


def _query(options: argparse.Namespace) -> None:
    n, c_in, h, w = _numbers(options.input, 4, "input")
    c_out, kernel_h, kernel_w = _numbers(options.filter, 3, "filter")
    padding = options.padding if "x" in options.padding else f"{options.padding}x{options.padding}"
    padding_h, padding_w = _numbers(padding, 2, "padding")
    shape = Shape(
        n, c_in, h, w, c_out, kernel_h, kernel_w,
        options.stride, padding_h, padding_w, options.dilation, options.groups,
    )  # fmt: skip
    devices = load_devices(options.catalogue)
    if options.gpu not in devices:
        raise ValueError(f"unknown GPU {options.gpu}; expected one of {', '.join(devices)}")
    library = Library(options.cudnn, options.cuda)
    planner = Planner(library, devices[options.gpu])
    precision, layout = Precision(options.precision), Layout(options.layout)
    plans = {direction: planner.plans(shape, direction, precision, layout) for direction in Direction}
    if options.json:
        found = {direction.value: [asdict(plan) for plan in offered] for direction, offered in plans.items()}
        print(json.dumps({"cudnn_version": library.version, "gpu": options.gpu, "plans": found}, indent=2))
    else:
        print(f"cuDNN {library.version}, {options.gpu}, {precision.value}, {layout.value}")
        for direction, offered in plans.items():
            print(f"{direction.value:16} {_in_words(offered)}")


def _in_words(plans: list[Plan]) -> str:
    sizes = ", ".join(f"{plan.bytes:,} (engine {plan.engine})" for plan in plans)
    return sizes or "no plan: cuDNN does not support it"


def _generate(options: argparse.Namespace) -> None:
    from cudnn_workspaces.generate import Generator, Job  # Only this needs pyarrow.

    formats = []
    for text in options.format:
        precision, _, layout = text.partition("-")
        formats.append((Precision(precision), Layout(layout)))
    gpus = tuple(options.gpu)
    generator = Generator(Library(options.cudnn, options.cuda), load_devices(options.catalogue), gpus)
    generator.write(Job(options.seed, options.shapes, gpus, tuple(formats), Kind(options.kind)), options.output)


def _numbers(text: str, count: int, what: str) -> list[int]:
    parts = text.split("x")
    if len(parts) != count or not all(part.isdecimal() for part in parts):
        raise ValueError(f"{what}: expected {count} numbers with x between them, found {text!r}")
    return [int(part) for part in parts]


if __name__ == "__main__":
    sys.exit(main())
