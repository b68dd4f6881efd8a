"""The command line of a capture: ``python -m plimsoll_gpu.capture MODEL``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plimsoll_gpu import assumptions
from plimsoll_gpu.capture import CaptureError, capture, to_text
from plimsoll_gpu.models import Request, build


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m plimsoll_gpu.capture",
        description="Captures a model as a Plimsoll graph, without weights and without a GPU.",
    )
    parser.add_argument(
        "model",
        help="torchvision:NAME or timm:NAME, such as torchvision:resnet50; hf:NAME or hf:PATH of a config.json; "
        "or MODULE:FUNCTION of your own, which returns a model and its example inputs",
    )
    parser.add_argument("--input", metavar="CxHxW", help="input of one sample (default: the model's own, or 3x224x224)")
    parser.add_argument("--tokens", type=int, help="tokens of one sample (default: the model's own)")
    parser.add_argument("--head", metavar="CLASS", help="head of an hf model, such as causal-lm or masked-lm")
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
        with assumptions.on_stderr():
            request = Request.parse(options.model, options.input, options.tokens, options.head, options.option)
            model, inputs = build(request)
            text = to_text(capture(model, inputs, options.name or request.title))
        if options.output is None:
            sys.stdout.write(text)
        else:
            options.output.write_text(text, encoding="utf-8")
    except (CaptureError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
