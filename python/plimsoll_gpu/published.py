"""Captures the models whose measurements are published: ``python -m plimsoll_gpu.published DIRECTORY``."""

from __future__ import annotations

import argparse
from pathlib import Path

from plimsoll_gpu.capture import capture, to_text
from plimsoll_gpu.models import Request, build

PUBLISHED: dict[str, Request] = {
    "vgg16": Request("torchvision", "vgg16"),
    "resnet50": Request("torchvision", "resnet50"),
    "mobilenet_v2": Request("torchvision", "mobilenet_v2"),
    "efficientnet_b0": Request("torchvision", "efficientnet_b0"),
    "inception_v3": Request(
        "torchvision", "inception_v3", (3, 299, 299), options={"aux_logits": False, "init_weights": False}
    ),
    "xception": Request("timm", "legacy_xception", (3, 224, 224)),
    "bert-base": Request("hf", "bert-base-uncased", head="masked-lm"),
    "bert-large": Request("hf", "bert-large-uncased", head="masked-lm"),
    "xlnet-base-cased": Request("hf", "xlnet-base-cased"),
    "xlnet-large-cased": Request("hf", "xlnet-large-cased"),
    "gpt2-large": Request("hf", "gpt2-large"),
    "gpt2-xl": Request("hf", "gpt2-xl"),
}
"""Graph names, as in ``data/published_real_models.csv``, and what they are."""


def main() -> None:
    """Writes one graph file a model."""
    parser = argparse.ArgumentParser(prog="python -m plimsoll_gpu.published", description=__doc__)
    parser.add_argument("directory", type=Path, help="where to write the graph files")
    parser.add_argument("names", nargs="*", metavar="name", help="which of them (default: all)")
    options = parser.parse_args()
    for name in options.names or PUBLISHED:
        model, inputs = build(PUBLISHED[name])
        path: Path = options.directory / f"{name}.json"
        path.write_text(to_text(capture(model, inputs, name)), encoding="utf-8")


if __name__ == "__main__":
    main()
