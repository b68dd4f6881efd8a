"""Writes fixtures: configurations, and what transformers makes of them.

For every configuration the number of parameters and their names and shapes, and of the small networks the captured
graph too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import torch
import transformers
from torch import nn

from huggingface_configs.published import PUBLISHED, USUAL
from huggingface_configs.small import SMALL, Small
from plimsoll_gpu.capture import capture
from plimsoll_gpu.graph import Json

CRATES = Path(__file__).resolve().parents[2] / "crates"
WEIGHTS = CRATES / "plimsoll-graph/tests/huggingface"
GRAPHS = CRATES / "plimsoll-simulate/tests/huggingface"

LISTED = 64
"""Networks of more parameter tensors have a checksum in place of the list."""


def build(config: transformers.PretrainedConfig, class_name: str, is_tied: bool) -> nn.Module:
    """A network on the meta device, as it is when weights have been loaded into it."""
    config.use_cache = False
    with torch.device("meta"):
        model: nn.Module = getattr(transformers, class_name)(config)
    model.to("meta")
    head = getattr(model, "lm_head", None)
    if config.model_type in ("t5", "mt5") and not is_tied and isinstance(head, nn.Linear):
        # The class ties the output layer whatever the file says; loading a checkpoint that has both unties it.
        head.weight = nn.Parameter(torch.empty_like(head.weight))
    return model


def weights(model: nn.Module) -> Json:
    """Number of parameters, and their names and shapes or a checksum (FNV-1a) of these."""
    lines = [" ".join([name, *map(str, parameter.shape)]) for name, parameter in model.named_parameters()]
    count = sum(parameter.numel() for parameter in model.parameters())
    if len(lines) <= LISTED:
        return {"parameters": count, "weights": lines}
    checksum = 0xCBF29CE484222325
    for byte in "".join(f"{line}\n" for line in lines).encode():
        checksum = (checksum ^ byte) * 0x100000001B3 % (1 << 64)
    return {"parameters": count, "checksum": f"{checksum:016x}"}


def published(fields: Json) -> Json:
    """The fixture of a published network: its file as it is, and as this release would save it."""
    config = transformers.CONFIG_MAPPING[fields["model_type"]].from_dict(dict(fields))
    model = build(config, fields["architectures"][0], fields.get("tie_word_embeddings", True))
    fixture = {"config": fields} | weights(model)
    if fields["model_type"] not in ("mt5", "vit"):  # One forgets whether it is tied, the other has long lists of names.
        fixture["saved"] = json.loads(config.to_json_string(use_diff=True))
    return fixture


def small(case: Small) -> tuple[Json, Json]:
    """The fixtures of a small network: its weights, and its graph."""
    config_class = getattr(transformers, case.class_name).config_class
    config = config_class(**case.settings)
    if case.eager:
        config._attn_implementation = "eager"
    model = build(config, case.class_name, case.settings.get("tie_word_embeddings", True))
    config.architectures = [case.class_name]
    fields = json.loads(config.to_json_string(use_diff=True))
    graph = capture(model, _inputs(config, case), case.class_name)
    return {"config": fields} | weights(model), {
        "config": fields,
        "tokens": None if config.model_type == "vit" else case.tokens,
        "eager": case.eager,
        "graph": graph,
    }


def _inputs(config: transformers.PretrainedConfig, case: Small) -> dict[str, torch.Tensor]:
    tokens = torch.empty(1, case.tokens, dtype=torch.long, device="meta")
    if config.model_type == "vit":
        size = config.image_size
        height, width = size if isinstance(size, list) else (size, size)
        return {"pixel_values": torch.empty(1, config.num_channels, height, width, device="meta")}
    if config.model_type == "whisper":
        frames = torch.empty(1, config.num_mel_bins, 2 * config.max_source_positions, device="meta")
        return {"input_features": frames, "decoder_input_ids": tokens}
    if config.model_type in ("t5", "mt5") and not case.class_name.endswith("EncoderModel"):
        return {"input_ids": tokens, "decoder_input_ids": tokens}
    return {"input_ids": tokens}


def _write(path: Path, fixture: Json, indent: int | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    separators = (",", ":") if indent is None else None
    path.write_text(json.dumps(fixture, indent=indent, separators=separators) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m huggingface_configs", description=__doc__)
    parser.add_argument("names", nargs="*", help="networks to write (default: all)")
    names = parser.parse_args(arguments).names
    for name, fields in PUBLISHED.items():
        if not names or name in names:
            _write(WEIGHTS / f"{name}.json", published(fields))
    for model_type, class_name in USUAL.items():
        if not names or f"default-{model_type}" in names:
            config = transformers.CONFIG_MAPPING[model_type]()
            fixture = {"config": {"model_type": model_type}} | weights(build(config, class_name, True))
            _write(WEIGHTS / f"default-{model_type}.json", fixture)
    for name, case in SMALL.items():
        if not names or name in names:
            of_weights, of_graph = small(case)
            _write(WEIGHTS / f"small-{name}.json", of_weights)
            _write(GRAPHS / f"{name}.json", of_graph)


if __name__ == "__main__":
    main()
