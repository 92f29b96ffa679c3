"""Boxes and masks: anchors, overlap, suppression, pooled regions."""

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.ops import box_iou


def boxes(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(count, 2, generator=generator) * 20
    return torch.cat([corner, corner + 2 + torch.rand(count, 2, generator=generator) * 8], 1)


def kept_boxes(given, scores, threshold):
    """Greedy suppression, written out: a box is dropped for a better one that is kept and overlaps it."""
    order = scores.argsort(descending=True, stable=True)
    overlap = box_iou(given[order], given[order]) > threshold
    kept = torch.ones(len(order), dtype=torch.bool)
    for n in range(1, len(order)):
        kept[n] = ~(overlap[n, :n] & kept[:n]).any()
    return order, kept


class Head(nn.Module):
    """A head with one scale: offsets of anchors become boxes, and the best of each class are kept."""

    def __init__(self):
        super().__init__()
        self.features, self.offsets, self.classes = nn.Conv2d(3, 8, 3, 4, 1), nn.Conv2d(8, 4, 1), nn.Conv2d(8, 3, 1)

    def decoded(self, images):
        x = F.relu(self.features(images))
        offsets, scores = self.offsets(x).flatten(2).mT[0], self.classes(x).flatten(2).mT[0].sigmoid()
        rows, columns = torch.meshgrid(torch.arange(x.shape[2]), torch.arange(x.shape[3]), indexing="ij")
        centre = torch.stack([columns, rows], -1).reshape(-1, 2) * 4.0 + 2 + offsets[:, :2]
        half = 3 * offsets[:, 2:].exp()
        return torch.cat([centre - half, centre + half], 1), scores

    def forward(self, images):
        return self.decoded(images)


class Detector(Head):
    def forward(self, images):
        found, scores = self.decoded(images)
        best, label = scores.max(-1)
        best, top = best.topk(8)
        found, label = found[top], label[top]
        order, kept = kept_boxes(found + label[:, None] * 100.0, best, 0.4)
        order = order[kept]
        return found[order], best[order], label[order]


class Suppress(nn.Module):
    def forward(self, given, scores):
        order, kept = kept_boxes(given, scores, 0.3)
        return order, kept, (scores[order] * kept)[:, None] * given[order]


class Overlaps(nn.Module):
    def forward(self, one, two):
        overlap = box_iou(one, two)
        return overlap, overlap.max(1).values > 0.2


class Regions(nn.Module):
    """Features of a region: three by three samples inside each box."""

    def forward(self, features, given):
        low, high = given[:, None, None, :2] / 16 - 1, given[:, None, None, 2:] / 16 - 1
        places = (torch.arange(3) + 0.5) / 3
        rows, columns = torch.meshgrid(places, places, indexing="ij")
        grid = low + (high - low) * torch.stack([columns, rows], -1)
        return F.grid_sample(features.expand(given.shape[0], -1, -1, -1), grid, align_corners=False)


class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(size, 8, 1) for size in (4, 8, 12))
        self.smooth = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(3))

    def forward(self, levels):
        found, above = [], None
        for n in reversed(range(3)):
            x = self.lateral[n](levels[f"p{n}"])
            above = x if above is None else x + F.interpolate(above, size=x.shape[2:], mode="nearest")
            found.append(self.smooth[n](above))
        return dict(zip(("coarse", "middle", "fine"), found))


class InstanceMasks(nn.Module):
    """Scores of masks become pasted pictures, and areas by a threshold."""

    def forward(self, scores):
        pasted = F.interpolate(scores.sigmoid(), (12, 12), mode="bilinear")
        inside = pasted > 0.5
        return pasted, inside, inside.sum((2, 3))


def decoded_boxes():
    torch.manual_seed(0)
    return Head().eval(), (torch.rand(1, 3, 24, 24),)


def detector_with_suppression():
    torch.manual_seed(0)
    return Detector().eval(), (torch.rand(1, 3, 24, 24),)


def suppression():
    return Suppress(), (boxes(12), torch.linspace(0.9, 0.1, 12))


def overlaps():
    return Overlaps(), (boxes(6), boxes(4, 1))


def pooled_regions():
    torch.manual_seed(0)
    return Regions(), (torch.randn(1, 4, 16, 16), boxes(4))


def pyramid_of_features():
    torch.manual_seed(0)
    sizes = ((4, 15), (8, 8), (12, 4))
    return Pyramid().eval(), ({f"p{n}": torch.randn(1, c, size, size) for n, (c, size) in enumerate(sizes)},)


def instance_masks():
    torch.manual_seed(0)
    return InstanceMasks(), (torch.randn(3, 1, 5, 5) * 4,)
