"""Parts of image generators: a U-Net with a time step, autoencoders, one step of a scheduler."""

import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel, UNet2DModel
from torch import nn


def unet():
    torch.manual_seed(0)
    model = UNet2DModel(
        sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    return model.eval(), (torch.randn(1, 3, 8, 8), torch.tensor(17)), {"return_dict": False}


def unet_with_text():
    torch.manual_seed(0)
    model = UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
        cross_attention_dim=12, attention_head_dim=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    return model.eval(), (torch.randn(1, 4, 8, 8), 500, torch.randn(1, 6, 12))


def autoencoder_kl():
    torch.manual_seed(0)
    model = AutoencoderKL(
        block_out_channels=(8,), layers_per_block=1, norm_num_groups=4, latent_channels=2, sample_size=8
    )
    return model.eval(), (torch.rand(1, 3, 8, 8) * 2 - 1,)


class Step(nn.Module):
    """One step of DDIM, with the noise that a small net predicts."""

    def __init__(self):
        super().__init__()
        self.net = nn.Conv2d(3, 3, 3, padding=1)
        self.scheduler = DDIMScheduler(num_train_timesteps=100)
        self.scheduler.set_timesteps(10)

    def forward(self, sample):
        noise = self.net(sample)
        return self.scheduler.step(noise, 50, sample, return_dict=False)[0]


def scheduler_step():
    torch.manual_seed(0)
    return Step().eval(), (torch.randn(1, 3, 8, 8),)


class Guided(nn.Module):
    """Classifier-free guidance: one batch with and without the condition, then their weighted difference."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(16 + 4, 16)

    def forward(self, latents, condition, scale: float):
        both = torch.cat([latents, latents])
        conditions = torch.cat([torch.zeros_like(condition), condition])
        without, given = self.mix(torch.cat([both, conditions], -1)).chunk(2)
        return without + scale * (given - without)


def guidance():
    torch.manual_seed(0)
    return Guided().eval(), (torch.randn(2, 16), torch.randn(2, 4), 7.5)
