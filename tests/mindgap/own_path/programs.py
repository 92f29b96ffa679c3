"""Programs whose export by the official tools is right or wrong in a known way: the sources of the tests here."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import torch
from torch import nn

Made = tuple[Any, ...]


def _seeded(model: nn.Module, *args: torch.Tensor) -> Made:
    return model.eval(), args


def _layer(outputs: int = 8) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(8, outputs)


def _given() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(4, 8)


class OnnxBranch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = _layer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.onnx.is_in_onnx_export():
            return x
        return self.layer(x)


class CompileBranch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = _layer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if torch.compiler.is_compiling() else self.layer(x).relu()


def onnx_branch() -> Made:
    """`torch.onnx.export` skips a layer."""
    return _seeded(nn.Sequential(_layer(), OnnxBranch(), _layer(3)), _given())


def compile_branch() -> Made:
    """`torch.export` and `torch.compile` skip a block."""
    return _seeded(nn.Sequential(_layer(), nn.Sequential(CompileBranch(), nn.Tanh())), _given())


class Promoting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = _layer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        return y.double() if torch.onnx.is_in_onnx_export() else y


def promoting() -> Made:
    """The exported program returns another dtype."""
    return _seeded(Promoting(), _given())


class Frozen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = _layer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.jit.is_tracing():
            return self.layer(x) - torch.as_tensor(x.detach().numpy().mean(axis=0))
        return self.layer(x) - x.mean(0)


def frozen() -> Made:
    """A trace holds a mean of its argument as a constant, and is right on that argument alone."""
    return _seeded(Frozen(), _given())


def dropping() -> Made:
    """Each side draws its own numbers."""
    return nn.Sequential(_layer(), nn.Dropout(0.5)), (_given(),)


class Counting(nn.Module):
    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.layer = _layer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        y = self.layer(x)
        y[:, :4].mul_(3)
        return y + self.calls


def counting() -> Made:
    """Each call adds its number, which an exported program does not count."""
    return _seeded(Counting(), _given())


class Noting(Counting):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(x.shape[0])
        return super().forward(x) - self.calls


def noting() -> Made:
    """Right everywhere: it writes to a buffer, to a list and through a view, and its outputs do not depend on that."""
    return _seeded(Noting(), _given())


class Cooling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.heat = _layer(), 4

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.heat = max(1, self.heat - 1)
        return self.layer(x) / self.heat


def cooling() -> Made:
    """Each call changes an attribute, which every export but that of `torch.compile` has as a constant."""
    return _seeded(nn.Sequential(Cooling(), nn.Tanh()), _given())


@dataclasses.dataclass
class Answer:
    logits: torch.Tensor
    parts: list[torch.Tensor]


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = _layer()

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor, scale: float = 1.0) -> Answer:
        y = self.layer(x) * scale
        if os.environ.get("MINDGAP_TESTS_FAST"):
            y = y.half().float()
        return Answer(y, [y.sum(), y.masked_fill(mask, 0.0)])


def nested() -> Made:
    """Right everywhere: keyword arguments, a dataclass, a 0-d output. It reads the environment."""
    return Nested().eval(), (_given(),), {"mask": _given() > 0.5, "scale": 2.0}


class SizeFrozen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = _layer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = int(x.shape[0])
        return self.layer(x) + torch.arange(count).sum()


class SizeAssumed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = _layer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = 4 if torch.compiler.is_exporting() else x.shape[0]
        return self.layer(x) / count


def size_frozen() -> Made:
    """A trace holds a size as a constant; `torch.export` refuses the dynamic dimension."""
    return _seeded(SizeFrozen(), _given())


def size_assumed() -> Made:
    """The exported program divides by the size that it was exported with."""
    return _seeded(SizeAssumed(), _given())


def any_size() -> Made:
    """Right at every size."""
    return _seeded(nn.Sequential(_layer(), nn.GELU()), _given())


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = _layer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = float(x.detach().mean()) if torch.jit.is_tracing() else x.mean()
        return self.layer(x) * scale


def sets() -> Made:
    """A trace holds a mean of the first of three sets of arguments; the third has another size."""
    first = _given()
    return nn.Sequential(nn.ReLU(), Gate()).eval(), [(first,), (first * 3 + 1,), (torch.ones(6, 8),)]


class Divided(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        count = 4 if torch.compiler.is_exporting() else x.shape[0]
        return x / count - y.sum(0)


class Dividing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.divided = _layer(), Divided()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.layer(self.divided(x, y))


def declared() -> Made:
    """The source declares dynamic dimensions; a submodule of the export divides by the size it was exported with."""
    rows = torch.export.Dim("rows", min=2, max=6)
    return Dividing().eval(), (_given(), _given().flip(0)), {}, {"x": {0: rows}, "y": {0: rows}}


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.encoder(x, src_key_padding_mask=mask)


def masked() -> Made:
    """In eager mode PyTorch's encoder has zeros at padded places, and other numbers once it is traced for an export."""
    mask = torch.tensor([[False, False, True], [False, True, True]])
    return Masked().eval().requires_grad_(False), (_given()[:2, None].expand(2, 3, 8).clone(), mask)


class Step(nn.Module):
    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        cache[0] = x.relu()
        return x + cache.sum(0)


def caching() -> Made:
    """It writes to an argument in place, which an exported model does not."""
    return _seeded(Step(), _given(), torch.zeros(3, 4, 8))


def batch_statistics() -> Made:
    """It normalises with the statistics of the batch, on purpose."""
    torch.manual_seed(0)
    return nn.Sequential(_layer(), nn.BatchNorm1d(8)).train(), (_given(),)


class Peak(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / x.abs().max().item()


def reading() -> Made:
    """It reads a number from its argument: no graph holds it, a trace holds the first one, other exports are right."""
    return _seeded(nn.Sequential(Peak(), _layer()), _given())


class Dropping(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x, 0.5)


def dropping_always() -> Made:
    """Its dropout is a call that no `.eval()` reaches."""
    return nn.Sequential(_layer(), Dropping()).eval(), (_given(),)


class Streaming(nn.Module):
    past: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("past", torch.zeros(1, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        joined = torch.cat([self.past, x])
        flat = self.past.view(-1)
        flat.copy_(joined[-1])
        return joined[:-1] + x


def streaming() -> Made:
    """It keeps the last row for the next call, and writes it through a view."""
    return _seeded(Streaming(), _given())


class Pooled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([(row * row.softmax(0)).sum() for row in x])


def pooled() -> Made:
    """Its loop over the batch has the length that it was exported with."""
    return _seeded(nn.Sequential(_layer(), Pooled()), _given())
