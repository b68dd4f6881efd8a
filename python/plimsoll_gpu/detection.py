from __future__ import annotations
from typing import Any
from torch import nn
from plimsoll_gpu.graph import CaptureError

def detects(model: nn.Module) -> bool:
    return type(model).__module__.startswith("torchvision.models.detection")

def as_one_batch(model: nn.Module, shape: Any) -> tuple[nn.Module, Any]:
    raise CaptureError("detection")
