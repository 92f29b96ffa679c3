"""A network for images in the style of collections of backbones."""

import logging
from collections.abc import Callable
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.init import trunc_normal_

_logger = logging.getLogger(__name__)


def drop_path(x, drop_prob: float = 0.0, training: bool = False):
    if drop_prob == 0.0 or not training:
        return x
    keep = 1 - drop_prob
    random_tensor = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep)
    return x * random_tensor.div_(keep)


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.permute(0, 2, 3, 1)
        x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class Block(nn.Module):
    def __init__(
        self, dim: int, act_layer: Callable = nn.GELU, norm_layer: Callable | None = partial(nn.LayerNorm, eps=1e-6)
    ):
        super().__init__()
        self.conv_dw = nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim)
        self.norm = norm_layer(dim)
        self.act = act_layer()
        self.gamma = nn.Parameter(1e-6 * torch.ones(dim))

    def forward(self, x):
        shortcut = x
        x = self.conv_dw(x).permute(0, 2, 3, 1)
        x = self.act(self.norm(x)).mul(self.gamma).permute(0, 3, 1, 2)
        return drop_path(x) + shortcut


class Net(nn.Module):
    def __init__(self, in_chans=3, num_classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(in_chans, 16, 4, stride=4, bias=True), LayerNorm2d(16))
        self.blocks = nn.Sequential(*[Block(16) for _ in range(2)])
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(16, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                trunc_normal_(module.weight, std=0.02)

    def forward(self, x):
        _logger.log(logging.INFO, "forward %s", x.shape)
        if x.shape[-1] != 64:
            x = F.interpolate(x, size=(64, 64), mode="bilinear", align_corners=False)
        x = self.pool(self.blocks(self.stem(x))).flatten(1)
        return self.head(x).log_softmax(dim=-1)
