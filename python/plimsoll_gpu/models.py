"""Builds models by name, on the meta device: no weights are made or downloaded."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.weak import WeakTensorKeyDictionary

from plimsoll_gpu import huggingface
from plimsoll_gpu.graph import CaptureError

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Request:
    """Which model to build, and the shape of one sample."""

    library: str
    """``torchvision``, ``timm``, ``hf``, or a module of the user's."""
    name: str
    """The model's name in its library; for ``hf`` also the path of a configuration; a function of a user's module."""
    shape: Shape | None = None
    """Input of one sample, for images; ``None`` is the model's own."""
    tokens: int | None = None
    """Tokens of one sample, for ``hf``; ``None`` is the model's own."""
    head: str | None = None
    """A key of ``huggingface.HEADS``, for ``hf``; ``None`` is the model's own."""
    options: dict[str, Any] = field(default_factory=dict)
    """Arguments of the model's constructor, or for ``hf`` of its configuration."""

    @classmethod
    def parse(
        cls, model: str, shape: str | None, tokens: int | None, head: str | None, options: Sequence[str]
    ) -> Request:
        """A request as the command line writes it.

        Raises:
            CaptureError: A part is not in its form.
        """
        library, colon, name = model.partition(":")
        if not (colon and library and name):
            known = ", ".join(f"{key}:NAME" for key in BUILDERS)
            raise CaptureError(f"unknown model `{model}`: expected {known} or MODULE:FUNCTION")
        try:
            extents = None if shape is None else tuple(int(extent) for extent in shape.split("x"))
            if extents is not None and min(extents) < 1:
                raise ValueError
        except ValueError:
            raise CaptureError(f"input `{shape}`: expected whole numbers such as 3x224x224") from None
        if tokens is not None and tokens < 1:
            raise CaptureError(f"tokens {tokens}: expected at least 1")
        pairs = [option.partition("=") for option in options]
        return cls(library, name, extents, tokens, head, {key: _value(text) for key, _, text in pairs})

    @property
    def title(self) -> str:
        """What to call the model: its name, without the folders of a path."""
        path = Path(self.name)
        return path.parent.name if path.name == "config.json" else path.name


def build(request: Request) -> tuple[nn.Module, Any]:
    """The model on the meta device, and example inputs.

    Raises:
        CaptureError: The library is not installed, does not know the model, or cannot build it.
    """
    builder = BUILDERS.get(request.library, _own)
    model = inputs = None
    for on_meta in (_everything_on_meta, _parameters_on_meta):
        try:
            with on_meta():
                model, inputs = builder(request)
            break
        except ImportError as error:
            raise CaptureError(f"{request.library}: {error}; install plimsoll-gpu[models]") from error
        except CaptureError:
            raise
        except Exception as error:  # A constructor is arbitrary code: it may need values, or fail for good.
            if on_meta is _parameters_on_meta:
                kind = type(error).__name__
                raise CaptureError(f"{request.library}:{request.name} cannot be built: {kind}: {error}") from error
    assert isinstance(model, nn.Module), "a builder returns a module or raises"
    return model, inputs


@contextmanager
def _everything_on_meta() -> Iterator[None]:
    with torch.device("meta"):
        yield


@contextmanager
def _parameters_on_meta() -> Iterator[None]:
    """Moves parameters to the meta device as modules register them; other tensors have values."""
    register = nn.Module.register_parameter
    moved = WeakTensorKeyDictionary()

    def registered(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None and parameter.device.type != "meta":
            if parameter not in moved:
                moved[parameter] = nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
            parameter = moved[parameter]
        register(module, name, parameter)

    nn.Module.register_parameter = registered  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]


def _image(shape: Shape) -> torch.Tensor:
    return torch.empty(1, *shape, device="meta")


def _torchvision(request: Request) -> tuple[nn.Module, Any]:
    from torchvision.models import get_model, get_model_builder, list_models

    if request.name not in list_models():
        raise CaptureError(f"unknown model torchvision:{request.name}")
    accepted = inspect.signature(get_model_builder(request.name)).parameters
    # Without this, backbones of segmentation and detection models would come with weights from the network.
    backbone = {"weights_backbone": None} if "weights_backbone" in accepted else {}
    model: nn.Module = get_model(request.name, weights=None, **backbone, **request.options)
    shape = request.shape or _torchvision_shape(model, request.name)
    if _package(model) == "detection":
        return model, [[_image(shape)[0]]]
    images = 2 if _package(model) == "optical_flow" else 1
    return model, [_image(shape)] * images


def _package(model: nn.Module) -> str:
    """The package of torchvision's models that a model is in, or its module."""
    return type(model).__module__.removeprefix("torchvision.models.").partition(".")[0]


def _torchvision_shape(model: nn.Module, name: str) -> Shape:
    """Extents that torchvision's own training recipes use; images of COCO for detectors, which resize them."""
    package = _package(model)
    if package == "detection":
        return (3, 480, 640)
    if package == "video" or "3d" in name:
        return (3, 16, 112, 112) if "resnet" in type(model).__module__ else (3, 16, 224, 224)
    if package == "optical_flow":
        return (3, 368, 496)
    if package == "segmentation":
        return (3, 480, 480)
    return (3, 299, 299) if "inception" in name else (3, 224, 224)


def _timm(request: Request) -> tuple[nn.Module, Any]:
    import timm

    if not timm.is_model(request.name):
        raise CaptureError(f"unknown model timm:{request.name}")
    model: Any = timm.create_model(request.name, pretrained=False, **request.options)
    return model, [_image(request.shape or tuple(model.default_cfg["input_size"]))]


def _hf(request: Request) -> tuple[nn.Module, Any]:
    return huggingface.build(request.name, request.head, request.tokens, request.shape, request.options)


def _own(request: Request) -> tuple[nn.Module, Any]:
    """What a function of a module in the working folder, or installed, returns."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(request.library)
    except ImportError as error:
        known = ", ".join(f"{key}:NAME" for key in BUILDERS)
        raise CaptureError(
            f"{request.library}:{request.name}: neither one of {known} nor a module that can be imported: {error}"
        ) from error
    function = getattr(module, request.name, None)
    if not callable(function):
        raise CaptureError(f"module `{request.library}` has no function `{request.name}`")
    built = function(**request.options)
    model, inputs = built if isinstance(built, tuple) and len(built) == 2 else (built, None)
    if not isinstance(model, nn.Module):
        expected = "expected a module, or a module and its example inputs"
        raise CaptureError(f"{request.library}:{request.name} returns a {type(model).__name__}: {expected}")
    if inputs is None and request.shape:
        inputs = [_image(request.shape)]
    elif inputs is None and request.tokens:
        inputs = [torch.empty(1, request.tokens, dtype=torch.long, device="meta")]
    elif inputs is None:
        raise CaptureError(f"{request.library}:{request.name} returns no example inputs: give --input or --tokens")
    return model, inputs


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
    return [Request("hf", name) for name in huggingface.PUBLISHED]


BUILDERS: dict[str, Callable[[Request], tuple[nn.Module, Any]]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "hf": _hf,
}
"""What builds the models of each library."""

CATALOGUES = {"timm": _timm_catalogue, "torchvision": _torchvision_catalogue, "hf": _hf_catalogue}
"""Every model of each library that is known by name."""
