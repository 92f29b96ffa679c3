"""The three architectures of "Unanticipated Deviations" (Tables SUP-5 and SUP-6) as PyTorch modules.

Every network takes [N, 3, H, W] float and returns class probabilities [N, 10]. Activation and pooling are arguments,
because the paper compares ReLU with sigmoid and maximum with average pooling (supplement E). No call is in place, so
that each layer's operand and result are two values of the captured graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal

import torch
from torch import Tensor, nn

Activation = Literal["relu", "sigmoid", "linear"]
Pooling = Literal["max", "average"]

CLASSES: Final = 10
_ACTIVATIONS: Final[dict[Activation, Callable[[], nn.Module]]] = {
    "relu": nn.ReLU,
    "sigmoid": nn.Sigmoid,
    "linear": nn.Identity,
}


def _pool(pooling: Pooling, size: int, stride: int, padding: int = 0) -> nn.Module:
    if pooling == "max":
        return nn.MaxPool2d(size, stride, padding)
    return nn.AvgPool2d(size, stride, padding)


class SmallCnn(nn.Module):
    """Table SUP-6: two convolutions, three dense layers, 59,354 parameters. Input 3 × 32 × 32."""

    def __init__(self, activation: Activation = "relu", pooling: Pooling = "max") -> None:
        super().__init__()
        act = _ACTIVATIONS[activation]
        self.features = nn.Sequential(
            nn.Conv2d(3, 3, 3, padding=1), act(), _pool(pooling, 2, 2),
            nn.Conv2d(3, 5, 5, padding=2), act(), _pool(pooling, 2, 2),
        )  # fmt: skip
        self.classifier = nn.Sequential(nn.Linear(320, 128), act(), nn.Linear(128, 128), act(), nn.Linear(128, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.classifier(self.features(x).flatten(1)), 1)


class BasicBlock(nn.Module):
    """Two 3 × 3 convolutions with batch normalisation and a shortcut (He et al. 2016)."""

    def __init__(self, inputs: int, outputs: int, stride: int, act: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.act1 = act()
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.act2 = act()
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))))
        return self.act2(y + self.shortcut(x))


class ResNet18(nn.Module):
    """ResNet-18 with the 7 × 7 stem. `width`: channels of the first stage, 64 in the paper."""

    def __init__(self, activation: Activation = "relu", pooling: Pooling = "max", width: int = 64) -> None:
        super().__init__()
        act = _ACTIVATIONS[activation]
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.act1 = act()
        self.pool1 = _pool(pooling, 3, 2, 1)
        widths = [width << stage for stage in range(4)]
        blocks: list[nn.Module] = []
        for stage, outputs in enumerate(widths):
            before = widths[max(stage - 1, 0)]
            blocks.append(BasicBlock(before, outputs, 1 if stage == 0 else 2, act))
            blocks.append(BasicBlock(outputs, outputs, 1, act))
        self.blocks = nn.Sequential(*blocks)
        self.pool2 = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(widths[-1], CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.pool1(self.act1(self.bn1(self.conv1(x)))))
        return torch.softmax(self.fc(self.pool2(x).flatten(1)), 1)


class PreActivationBottleneck(nn.Module):
    """1 × 1, 3 × 3, 1 × 1 convolutions, each after normalisation and activation (ResNet v2)."""

    def __init__(self, inputs: int, width: int, stride: int, act: Callable[[], nn.Module]) -> None:
        super().__init__()
        outputs = 4 * width
        self.bn1, self.act1 = nn.BatchNorm2d(inputs), act()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn2, self.act2 = nn.BatchNorm2d(width), act()
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn3, self.act3 = nn.BatchNorm2d(width), act()
        self.conv3 = nn.Conv2d(width, outputs, 1)
        projects = stride != 1 or inputs != outputs
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride) if projects else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.act1(self.bn1(x))
        kept = x if self.shortcut is None else self.shortcut(y)
        y = self.conv2(self.act2(self.bn2(self.conv1(y))))
        return kept + self.conv3(self.act3(self.bn3(y)))


class ResNet50V2(nn.Module):
    """ResNet-50 v2 (3, 4, 6 and 3 blocks)."""

    def __init__(
        self, activation: Activation = "relu", pooling: Pooling = "max", depths: Sequence[int] = (3, 4, 6, 3)
    ) -> None:
        super().__init__()
        act = _ACTIVATIONS[activation]
        block = partial(PreActivationBottleneck, act=act)
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3)
        self.pool1 = _pool(pooling, 3, 2, 1)
        blocks: list[nn.Module] = []
        inputs = 64
        for stage, depth in enumerate(depths):
            width = 64 << stage
            for number in range(depth):
                blocks.append(block(inputs, width, 2 if stage > 0 and number == 0 else 1))
                inputs = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.bn2, self.act2 = nn.BatchNorm2d(inputs), act()
        self.pool2 = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inputs, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act2(self.bn2(self.blocks(self.pool1(self.conv1(x)))))
        return torch.softmax(self.fc(self.pool2(x).flatten(1)), 1)
