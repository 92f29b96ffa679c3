"""A U-Net with time steps and a scheduler in the style of diffusion libraries."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .loaders import registry
from .utils import logging, randn_tensor

logger = logging.get_logger(__name__)


def timestep_embedding(timesteps: torch.Tensor, dim: int, max_period: int = 10000):
    half = dim // 2
    exponent = -math.log(max_period) * torch.arange(start=0, end=half, dtype=torch.float32, device=timesteps.device)
    emb = timesteps[:, None].float() * torch.exp(exponent / half)[None, :]
    emb = torch.cat([torch.sin(emb), torch.cos(emb)], dim=-1)
    return F.pad(emb, (0, 1, 0, 0)) if dim % 2 == 1 else emb


class Resnet(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm1 = torch.nn.GroupNorm(num_groups=4, num_channels=channels, eps=1e-5)
        self.conv1 = torch.nn.Conv2d(channels, channels, kernel_size=3, padding=1)
        self.time = torch.nn.Linear(16, channels)
        self.nonlinearity = nn.SiLU()

    def forward(self, hidden, temb):
        hidden = self.conv1(self.nonlinearity(self.norm1(hidden)))
        scale, shift = torch.chunk(self.time(temb)[:, :, None, None].repeat(1, 2, 1, 1), 2, dim=1)
        return hidden * (1 + scale) + shift


class Up(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.ConvTranspose2d(channels, channels, 4, 2, 1)

    def forward(self, x, size=None):
        x = (
            F.interpolate(x, scale_factor=2.0, mode="nearest")
            if size is None
            else F.interpolate(x, size=size, mode="nearest")
        )
        return self.conv(x)


class Scheduler:
    def __init__(self, steps=1000):
        self.betas = torch.linspace(1e-4, 0.02, steps, dtype=torch.float32)
        self.alphas_cumprod = torch.cumprod(1.0 - self.betas, dim=0)
        sigmas = np.array(((1 - self.alphas_cumprod) / self.alphas_cumprod) ** 0.5)
        sigmas = np.concatenate([sigmas[::-1], [0.0]]).astype(np.float32)
        self.timesteps = torch.from_numpy(np.linspace(0, steps - 1, 10)[::-1].copy())
        self.log_sigmas = np.log(np.maximum(sigmas, 1e-10))
        registry.add(self)

    def step(self, model_output, t, sample, generator=None):
        a = self.alphas_cumprod[t].to(sample.dtype)
        x0 = (sample - (1 - a).sqrt() * model_output) / a.sqrt()
        noise = randn_tensor(model_output.shape, generator=generator)
        s = torch.quantile(torch.abs(x0).flatten(1), 0.99, dim=1)
        x0 = torch.clamp(x0, -1, 1) * torch.maximum(s, torch.ones_like(s)).mean()
        return x0.lerp(sample, 0.5).add(noise, alpha=0.1)
