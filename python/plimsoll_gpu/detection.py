"""Trains torchvision's detectors on a whole batch as if it were one image.

These models take lists and loop over images, so that their operators are as many as the batch; and they choose among
boxes by value. Here the batch goes through backbone and heads as always, and what follows sees one image with the
boxes of all. How many boxes are chosen is fixed to the most that the models' own settings allow. What is left out is
small: sorting out overlapping proposals, and resizing of targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models.detection.anchor_utils import AnchorGenerator, DefaultBoxGenerator
from torchvision.models.detection.generalized_rcnn import GeneralizedRCNN
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.roi_heads import RoIHeads
from torchvision.models.detection.rpn import RegionProposalNetwork
from torchvision.models.detection.ssd import SSD
from torchvision.models.detection.transform import GeneralizedRCNNTransform
from torchvision.ops import MultiScaleRoIAlign

Targets = dict[str, torch.Tensor]

BOXES = 8
"""Objects in an image: COCO has seven on average."""
POSITIVES = 64
"""Anchors of an image that one-stage detectors match with an object."""
BATCHES = (3, 2)
"""Batch sizes to capture at: small, so that choices among all anchors of a batch can be followed."""
KEYPOINTS = 17


def as_one_batch(model: Any, shape: Sequence[int]) -> dict[str, torch.Tensor]:
    """Makes a detector take its batch whole; returns example inputs.

    Args:
        model: A detector; it is changed.
        shape: Channels, height and width of an image before the model resizes it.
    """
    extents = tuple(shape)
    inputs = {"images": torch.empty(1, *extents, device="meta"), "boxes": torch.empty(1, BOXES, 4, device="meta")}
    model.transform.__class__ = _Transform
    matcher = model.rpn.proposal_matcher if hasattr(model, "rpn") else getattr(model, "proposal_matcher", None)
    if matcher is not None:
        matcher.allow_low_quality_matches = False  # It asks for all anchors that are an object's best: a few.
    if isinstance(model, GeneralizedRCNN):
        rpn, heads = model.rpn, model.roi_heads
        for kind, part in ((_TwoStage, model), (_Proposals, rpn), (_Heads, heads)):
            _mix_in(kind, part)
        _fold_anchors(rpn.anchor_generator)
        for part in (rpn, heads):
            part.fg_bg_sampler = _Sampler(part.fg_bg_sampler)
        for pool in (heads.box_roi_pool, heads.mask_roi_pool, heads.keypoint_roi_pool):
            if pool is not None:
                pool.__class__ = _Pool
        if heads.has_mask():
            inputs["masks"] = torch.empty(1, BOXES, *extents[1:], dtype=torch.uint8, device="meta")
        if heads.has_keypoint():
            inputs["keypoints"] = torch.empty(1, BOXES, KEYPOINTS, 3, device="meta")
    else:
        loss_is_of = model if isinstance(model, SSD) else model.head
        _mix_in(_Matched, loss_is_of)
        _mix_in(_OneStage, model)
        _fold_anchors(model.anchor_generator)
    return inputs


def _mix_in(kind: type, module: nn.Module) -> None:
    """Lets methods of ``kind`` come before those of a module's own class."""
    module.__class__ = type(type(module).__name__, (kind, type(module)), {})


def _fold_anchors(generator: nn.Module) -> None:
    kind = _DefaultBoxes if isinstance(generator, DefaultBoxGenerator) else _Anchors
    generator.__class__ = kind


def _target(boxes: torch.Tensor, rest: dict[str, torch.Tensor | None]) -> Targets:
    """What is to be found in an image, in the size of the folded one: that of a single image."""
    target = {"boxes": boxes[0], "labels": torch.ones(boxes.shape[1], dtype=torch.int64, device=boxes.device)}
    return target | {name: tensor[0] for name, tensor in rest.items() if tensor is not None}


class _TwoStage(GeneralizedRCNN):
    batches = BATCHES

    def forward(
        self,
        images: torch.Tensor,
        boxes: torch.Tensor,
        masks: torch.Tensor | None = None,
        keypoints: torch.Tensor | None = None,
    ) -> Any:
        """The losses of a batch."""
        self.rpn.images = self.rpn.fg_bg_sampler.images = self.roi_heads.fg_bg_sampler.images = len(images)
        return super().forward([images], [_target(boxes, {"masks": masks, "keypoints": keypoints})])


class _OneStage(nn.Module):
    batches = BATCHES
    head: Any

    def forward(self, images: torch.Tensor, boxes: torch.Tensor) -> Any:
        """The losses of a batch."""
        self.images = self.head.images = len(images)
        return super().forward([images], [_target(boxes, {})])


class _Transform(GeneralizedRCNNTransform):
    def forward(self, images: list[torch.Tensor], targets: Any = None) -> tuple[ImageList, Any]:
        """Normalises, resizes and pads all images at once; they are of one size."""
        (batch,) = images
        batch = self.normalize(batch)
        height, width = batch.shape[-2:]
        if self.fixed_size is not None:
            batch = F.interpolate(batch, size=self.fixed_size[::-1], mode="bilinear", align_corners=False)
        else:
            scale = min(self.min_size[-1] / min(height, width), self.max_size / max(height, width))
            size = (int(height * scale), int(width * scale))
            batch = F.interpolate(batch, size=size, mode="bilinear", align_corners=False)
        height, width = batch.shape[-2:]
        padded = (-(-extent // self.size_divisible) * self.size_divisible for extent in (height, width))
        canvas = batch.new_zeros((*batch.shape[:2], *padded))
        canvas[..., :height, :width].copy_(batch)
        return ImageList(canvas, [(height, width)]), targets


class _Anchors(AnchorGenerator):
    def forward(self, image_list: ImageList, feature_maps: list[torch.Tensor]) -> list[torch.Tensor]:
        """The anchors of all images in a row."""
        (anchors,) = super().forward(image_list, feature_maps)
        return [anchors.repeat(len(image_list.tensors), 1)]


class _DefaultBoxes(DefaultBoxGenerator):
    def forward(self, image_list: ImageList, feature_maps: list[torch.Tensor]) -> list[torch.Tensor]:
        """The anchors of all images in a row."""
        (anchors,) = super().forward(image_list, feature_maps)
        return [anchors.repeat(len(image_list.tensors), 1)]


class _Sampler:
    """Chooses as many boxes as a sampler does at most, the first of a row."""

    def __init__(self, sampler: Any) -> None:
        self.count = sampler.batch_size_per_image
        self.positives = int(sampler.batch_size_per_image * sampler.positive_fraction)
        self.images = 1

    def __call__(self, matches: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        (row,) = matches
        places = torch.arange(len(row), device=row.device)
        positive = places < self.positives * self.images
        return [positive], [(places < self.count * self.images) & ~positive]


class _Proposals(RegionProposalNetwork):
    images: int

    def pre_nms_top_n(self) -> int:
        """Proposals of each level for all images."""
        count: int = super().pre_nms_top_n() * self.images
        return count

    def filter_proposals(
        self, proposals: torch.Tensor, objectness: torch.Tensor, image_shapes: Any, num_anchors_per_level: list[int]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The best of each level, then as many as are left of them at most."""
        scores = objectness.detach().reshape(1, -1)
        best = self._get_top_n_idx(scores, [count * self.images for count in num_anchors_per_level])[0]
        left = best[: self.post_nms_top_n() * self.images]
        return [proposals[0][left]], [scores[0][left]]


class _Heads(RoIHeads):
    def add_gt_proposals(self, proposals: Any, gt_boxes: Any) -> list[torch.Tensor]:
        """Objects are proposals too, in every image."""
        images = self.fg_bg_sampler.images
        return [torch.cat((row, boxes.repeat(images, 1))) for row, boxes in zip(proposals, gt_boxes, strict=True)]

    def select_training_samples(self, proposals: Any, targets: Any) -> Any:
        """Those that the sampler chooses, of which the first are objects and the rest background."""
        proposals, matches, labels, regressions = super().select_training_samples(proposals, targets)
        (row,) = labels
        objects = self.fg_bg_sampler.positives * self.fg_bg_sampler.images
        return proposals, matches, [(torch.arange(len(row), device=row.device) < objects).long()], regressions


class _Pool(MultiScaleRoIAlign):
    @property
    def map_levels(self) -> Any:
        """Spreads boxes evenly over levels."""
        return lambda boxes: torch.arange(len(boxes[0]), device=boxes[0].device) % len(self.scales)

    @map_levels.setter
    def map_levels(self, value: Any) -> None:
        """Takes no other."""


class _Matched(nn.Module):
    images: int

    def compute_loss(
        self, targets: Any, head_outputs: dict[str, torch.Tensor], anchors: Any, matched_idxs: list[torch.Tensor]
    ) -> Any:
        """The loss of all images' anchors as of one image, where the first are matched with an object."""
        (row,) = matched_idxs
        matches = (torch.arange(len(row), device=row.device) < POSITIVES * self.images).long() - 1
        folded = {name: output.flatten(0, 1).unsqueeze(0) for name, output in head_outputs.items()}
        return super().compute_loss(targets, folded, anchors, [matches])  # type: ignore[misc]
