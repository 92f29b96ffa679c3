"""What comes before the net: pictures and tables made into tensors, values mended by masks."""

import torch
import torch.nn.functional as F
from torch import nn

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def picture(height=20, width=28):
    torch.manual_seed(0)
    return torch.randint(0, 256, (1, height, width, 3), dtype=torch.uint8)


class Normalise(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor(MEAN).view(3, 1, 1))
        self.register_buffer("deviation", torch.tensor(DEVIATION).view(3, 1, 1))

    def forward(self, pictures):
        return (pictures.permute(0, 3, 1, 2).float() / 255 - self.mean) / self.deviation


class ResizeAndCrop(nn.Module):
    def forward(self, pictures):
        x = pictures.permute(0, 3, 1, 2).float() / 255
        x = F.interpolate(x, (14, 20), mode="bilinear", antialias=True, align_corners=False)
        return x[..., 1:13, 4:16]


class ResizeBicubic(nn.Module):
    def forward(self, pictures):
        x = F.interpolate(pictures.permute(0, 3, 1, 2).float(), scale_factor=1.5, mode="bicubic", align_corners=False)
        return x.round().clamp(0, 255).to(torch.uint8)


class ResizeNearest(nn.Module):
    def forward(self, pictures):
        x = pictures.permute(0, 3, 1, 2).float()
        return F.interpolate(x, (13, 17), mode="nearest"), F.interpolate(x, (13, 17), mode="nearest-exact")


class Blur(nn.Module):
    def forward(self, pictures):
        x = pictures.permute(0, 3, 1, 2).float() / 255
        line = torch.exp(-torch.arange(-2.0, 3).square() / 2)
        kernel = torch.outer(line, line) / line.sum() ** 2
        return F.conv2d(F.pad(x, (2, 2, 2, 2), mode="reflect"), kernel.expand(3, 1, 5, 5), groups=3)


class Grey(nn.Module):
    def forward(self, pictures):
        grey = (pictures.float() * torch.tensor([0.299, 0.587, 0.114])).sum(-1)
        low, high = grey.amin((1, 2), keepdim=True), grey.amax((1, 2), keepdim=True)
        return ((grey - low) / (high - low) * 255).to(torch.uint8)


class FillMissing(nn.Module):
    """Missing values become the column's mean; outliers are cut; done by assignment through masks."""

    def forward(self, table):
        table = table.clone()
        missing = table.isnan()
        mean = table.nanmean(0).expand_as(table)
        table[missing] = mean[missing]
        table[table > 2.0] = 2.0
        return table


class MaskedTokens(nn.Module):
    def forward(self, tokens, places):
        tokens = tokens.clone()
        tokens[places] = 3
        labels = torch.full_like(tokens, -100)
        labels[~places] = 0
        return tokens, labels


class Buckets(nn.Module):
    def forward(self, ages):
        bucket = torch.bucketize(ages, torch.tensor([18.0, 30.0, 45.0, 60.0]), right=True)
        return F.one_hot(bucket, 5), torch.bincount(bucket, minlength=5)


class Patches(nn.Module):
    """Windows of a picture as rows, by unfold, and together again by fold."""

    def forward(self, x):
        rows = F.unfold(x, 3, padding=1, stride=2)
        return rows, F.fold(rows, x.shape[2:], 3, padding=1, stride=2)


class Warped(nn.Module):
    def forward(self, x, transform):
        return F.grid_sample(x, F.affine_grid(transform, x.shape, align_corners=False), align_corners=False)


def normalise():
    return Normalise(), (picture(),)


def resize_and_crop():
    return ResizeAndCrop(), (picture(),)


def resize_bicubic():
    return ResizeBicubic(), (picture(),)


def resize_nearest():
    return ResizeNearest(), (picture(),)


def blur():
    return Blur(), (picture(),)


def grey():
    return Grey(), (picture(),)


def fill_missing():
    torch.manual_seed(0)
    table = torch.randn(6, 4) * 1.5
    table[table.abs() < 0.3] = torch.nan
    return FillMissing(), (table,)


def masked_tokens():
    torch.manual_seed(0)
    return MaskedTokens(), (torch.randint(5, 40, (2, 8)), torch.rand(2, 8) < 0.3)


def buckets():
    return Buckets(), (torch.tensor([12.0, 18.0, 29.5, 30.0, 45.5, 77.0]),)


def patches():
    torch.manual_seed(0)
    return Patches(), (torch.randn(1, 2, 8, 8),)


def warped():
    torch.manual_seed(0)
    transform = torch.tensor([[[0.8, -0.3, 0.1], [0.3, 0.8, -0.2]]])
    return Warped(), (torch.randn(1, 2, 9, 9), transform)
