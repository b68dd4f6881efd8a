"""Builds models by name, on the meta device: no weights are made or downloaded."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from plimsoll_gpu.graph import CaptureError


@dataclass(frozen=True)
class Request:
    """Which model to build, and the shape of one sample."""

    library: str
    """``torchvision``, ``timm`` or ``hf``."""
    name: str
    """The model's name in its library."""
    shape: tuple[int, ...] | None = None
    """Input of one sample, for ``torchvision`` and ``timm``; ``None`` is the model's own."""
    tokens: int = 512
    """Tokens of one sample, for ``hf``."""
    head: str = "causal-lm"
    """A key of ``HEADS``, for ``hf``."""
    options: dict[str, Any] = field(default_factory=dict)
    """Arguments of the model's constructor, or for ``hf`` of its configuration."""

    @classmethod
    def parse(cls, model: str, shape: str | None, tokens: int, head: str, options: Sequence[str]) -> Request:
        """A request as the command line writes it.

        Raises:
            CaptureError: A part is not in its form.
        """
        library, colon, name = model.partition(":")
        if not colon or library not in BUILDERS:
            raise CaptureError(f"unknown model `{model}`: expected {', '.join(f'{key}:NAME' for key in BUILDERS)}")
        try:
            extents = None if shape is None else tuple(int(extent) for extent in shape.split("x"))
        except ValueError:
            raise CaptureError(f"input `{shape}`: expected whole numbers such as 3x224x224") from None
        pairs = [option.partition("=") for option in options]
        return cls(library, name, extents, tokens, head, {key: _value(text) for key, _, text in pairs})


def build(request: Request) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """The model on the meta device, and example inputs by argument.

    Raises:
        CaptureError: The library is not installed, or does not know the model.
    """
    try:
        try:
            with torch.device("meta"):
                model = BUILDERS[request.library](request)
        except (NotImplementedError, RuntimeError):  # The constructor computes something: let it.
            model = BUILDERS[request.library](request)
    except ImportError as error:
        raise CaptureError(f"{request.library}: {error}; install plimsoll-gpu[models]") from error
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise CaptureError(f"{request.library}:{request.name} cannot be built: {error}") from error
    # Tensors made by their type's constructor (`torch.FloatTensor`) do not follow the default device.
    model = model.to("meta")
    return model, _example_inputs(request, model)


def _example_inputs(request: Request, model: nn.Module) -> dict[str, torch.Tensor]:
    if request.library == "hf":
        return {"input_ids": torch.empty(1, request.tokens, dtype=torch.long, device="meta")}
    shape = request.shape or getattr(model, "default_cfg", {}).get("input_size", (3, 224, 224))
    return {"x": torch.empty(1, *shape, device="meta")}


def _torchvision(request: Request) -> nn.Module:
    from torchvision.models import get_model

    model: nn.Module = get_model(request.name, weights=None, **request.options)
    return model


def _timm(request: Request) -> nn.Module:
    import timm

    model: nn.Module = timm.create_model(request.name, pretrained=False, **request.options)
    return model


def _hf(request: Request) -> nn.Module:
    import transformers

    if request.name not in CONFIGURATIONS:
        raise CaptureError(f"unknown model hf:{request.name}: known are {', '.join(CONFIGURATIONS)}")
    configuration, settings = CONFIGURATIONS[request.name]
    # A cache of keys and values serves generation; a training loop has no use for it.
    config = getattr(transformers, configuration)(**{"use_cache": False} | settings | request.options)
    model: nn.Module = getattr(transformers, HEADS[request.head]).from_config(config)
    return model


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _timm_catalogue() -> list[Request]:
    import timm

    return [Request("timm", name) for name in timm.list_models()]


def _torchvision_catalogue() -> list[Request]:
    from torchvision.models import list_models

    return [Request("torchvision", name) for name in list_models()]


def _hf_catalogue() -> list[Request]:
    return [Request("hf", name) for name in CONFIGURATIONS]


CATALOGUES = {"timm": _timm_catalogue, "torchvision": _torchvision_catalogue, "hf": _hf_catalogue}
"""Every model of each library that is known by name."""

BUILDERS = {"torchvision": _torchvision, "timm": _timm, "hf": _hf}
"""What builds the models of each library."""

HEADS = {
    "causal-lm": "AutoModelForCausalLM",
    "masked-lm": "AutoModelForMaskedLM",
    "sequence-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
}
"""Heads of ``hf`` models, by the class that builds them."""

CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert-base-uncased": ("BertConfig", {}),
    "bert-large-uncased": (
        "BertConfig",
        {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    ),
    "xlnet-base-cased": ("XLNetConfig", {"d_model": 768, "n_layer": 12, "n_head": 12, "d_inner": 3072}),
    "xlnet-large-cased": ("XLNetConfig", {}),
    "gpt2-large": ("GPT2Config", {"n_embd": 1280, "n_layer": 36, "n_head": 20}),
    "gpt2-xl": ("GPT2Config", {"n_embd": 1600, "n_layer": 48, "n_head": 25}),
}
"""Configurations as on the Hugging Face hub, from the class's defaults."""
