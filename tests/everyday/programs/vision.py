"""Image classifiers and image-to-image nets, as people write them and as timm has them."""

import timm
import torch
import torch.nn.functional as F
from torch import nn


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(12, 32), nn.Linear(32, 5)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(x)))


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2, self.norm2 = nn.Conv2d(8, 16, 3, stride=2), nn.BatchNorm2d(16)
        self.head = nn.Linear(16, 10)

    def forward(self, images):
        x = F.relu(self.norm1(self.conv1(images)))
        x = F.max_pool2d(x, 2)
        x = F.relu(self.norm2(self.conv2(x)))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class SqueezeExcite(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x):
        scale = self.up(F.silu(self.down(x.mean((2, 3), keepdim=True))))
        return x * torch.sigmoid(scale)


class MobileBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.expand = nn.Conv2d(8, 24, 1, bias=False)
        self.depthwise = nn.Conv2d(24, 24, 5, padding=2, groups=24, bias=False)
        self.norm, self.gate = nn.BatchNorm2d(24), SqueezeExcite(24)
        self.project = nn.Conv2d(24, 8, 1, bias=False)

    def forward(self, x):
        y = F.hardswish(self.norm(self.depthwise(F.relu6(self.expand(x)))))
        return x + self.project(self.gate(y))


class Segmenter(nn.Module):
    """A U of two levels: pooled on the way down, upsampled and joined on the way up."""

    def __init__(self):
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.up, self.merge, self.head = (
            nn.ConvTranspose2d(16, 8, 2, 2),
            nn.Conv2d(16, 8, 3, padding=1),
            nn.Conv2d(8, 4, 1),
        )

    def forward(self, images):
        one = F.relu(self.down1(images))
        two = F.relu(self.down2(F.max_pool2d(one, 2)))
        joined = F.relu(self.merge(torch.cat([one, self.up(two)], 1)))
        logits = self.head(joined)
        return logits, logits.argmax(1)


class SuperResolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.tail = nn.Conv2d(3, 12, 3, padding=1), nn.Conv2d(12, 12, 3, padding=1)

    def forward(self, images):
        sharp = F.pixel_shuffle(self.tail(F.prelu(self.body(images), torch.full((12,), 0.25))), 2)
        return sharp + F.interpolate(images, scale_factor=2, mode="bilinear", align_corners=False)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(1, 6, 3, 2, 1), nn.LeakyReLU(0.1), nn.Conv2d(6, 12, 3, 2, 1))
        self.decode = nn.Sequential(
            nn.ConvTranspose2d(12, 6, 3, 2, 1, 1), nn.ELU(), nn.ConvTranspose2d(6, 1, 3, 2, 1, 1)
        )

    def forward(self, images):
        code = self.encode(images)
        return torch.sigmoid(self.decode(code)), code


def images(batch, channels, size):
    return torch.rand(batch, channels, size, size)


def perceptron():
    torch.manual_seed(0)
    return Perceptron().eval(), (torch.randn(4, 12),)


def convolutional():
    torch.manual_seed(0)
    return SmallNet().eval(), (images(2, 3, 16),)


def convolutional_in_training():
    torch.manual_seed(0)
    return SmallNet().train(), (images(4, 3, 16),)


def mobile_block():
    torch.manual_seed(0)
    return MobileBlock().eval(), (torch.randn(1, 8, 10, 10),)


def segmenter():
    torch.manual_seed(0)
    return Segmenter().eval(), (images(1, 3, 16),)


def super_resolution():
    torch.manual_seed(0)
    return SuperResolution().eval(), (images(1, 3, 8),)


def autoencoder():
    torch.manual_seed(0)
    return Autoencoder().eval(), (images(2, 1, 16),)


def channels_last():
    torch.manual_seed(0)
    model = SmallNet().eval().to(memory_format=torch.channels_last)
    return model, (images(2, 3, 16).to(memory_format=torch.channels_last),)


def timm_resnet():
    torch.manual_seed(0)
    return timm.create_model("test_resnet", num_classes=7).eval(), (images(1, 3, 64),)


def timm_vit():
    torch.manual_seed(0)
    return timm.create_model("test_vit", img_size=64, num_classes=7).eval(), (images(1, 3, 64),)


def timm_convnext():
    torch.manual_seed(0)
    return timm.create_model("test_convnext", num_classes=7).eval(), (images(1, 3, 64),)
