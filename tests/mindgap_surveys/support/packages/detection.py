"""Boxes, anchors and non-maximum suppression in the style of detection libraries."""

import copy
import itertools
import logging
import math
from collections import OrderedDict

import cv2
import numpy as np
import pycocotools.mask as mask_util
import torch
from torch import nn
from torch.nn import functional as F

logger = logging.getLogger("detection")


class Boxes:
    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor

    def area(self) -> torch.Tensor:
        return (self.tensor[:, 2] - self.tensor[:, 0]) * (self.tensor[:, 3] - self.tensor[:, 1])

    def clip(self, size) -> None:
        assert torch.isfinite(self.tensor).all(), "box is not finite"
        x1 = self.tensor[:, 0].clamp(min=0, max=size[1])
        y1 = self.tensor[:, 1].clamp(min=0, max=size[0])
        self.tensor = torch.stack((x1, y1, x1, y1), dim=-1)


def iou(one: Boxes, other: Boxes) -> torch.Tensor:
    both = torch.min(one.tensor[:, None, 2:], other.tensor[:, 2:]) - torch.max(
        one.tensor[:, None, :2], other.tensor[:, :2]
    )
    inter = both.clamp_(min=0).prod(dim=2)
    return torch.where(inter > 0, inter / (one.area()[:, None] + other.area() - inter), torch.zeros(1))


def nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    order = scores.argsort(descending=True)
    keep = []
    while order.numel() > 0:
        keep.append(order[0].item())
        overlaps = iou(Boxes(boxes[order[:1]]), Boxes(boxes[order[1:]]))[0]
        order = order[1:][torch.nonzero(overlaps <= threshold).squeeze(1)]
    return torch.as_tensor(keep, dtype=torch.int64)


def masks(polygons, height, width):
    canvas = np.zeros((height, width), dtype=np.uint8)
    for polygon in polygons:
        cv2.fillPoly(canvas, [np.round(polygon).astype(np.int32)], 1)
    rle = mask_util.encode(np.asfortranarray(canvas))
    logger.log(logging.DEBUG, "mask of %s", np.unique(canvas))
    return torch.from_numpy(cv2.resize(canvas, (28, 28))), rle


class Head(nn.Module):
    def __init__(self, channels=16, anchors=3):
        super().__init__()
        self.layers = nn.Sequential(
            OrderedDict(conv=nn.Conv2d(channels, channels, 3, padding=1), relu=nn.ReLU(inplace=True))
        )
        self.cls_score = nn.Conv2d(channels, anchors, 1)
        self.bbox_pred = nn.Conv2d(channels, 4 * anchors, 1)
        self.anchors = [math.sqrt(a * a) for a in itertools.product((1, 2), repeat=1) for a in a]
        self.other = copy.deepcopy(self.layers)

    def forward(self, features):
        logits = [self.cls_score(self.layers(each)).permute(0, 2, 3, 1).flatten(1) for each in features]
        scores, places = torch.cat(logits, dim=1).sigmoid().topk(5, dim=1)
        deltas = torch.cat([self.bbox_pred(each).flatten(2) for each in features], dim=2).transpose(1, 2)
        picked = torch.gather(deltas, 1, places[..., None].expand(-1, -1, 4).div(3, rounding_mode="floor"))
        return F.smooth_l1_loss(picked, torch.zeros_like(picked), reduction="none"), scores
