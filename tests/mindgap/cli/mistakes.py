"""Programs with a mistake of their author, and one without. `SAYS`: what is said of each, as a pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

X = torch.ones(2, 4)
SAYS: dict[str, str] = {}
_LINE = r" \(mistakes.py:\d+\)$"


class Forward(nn.Module):
    """A linear layer, and a function as `forward`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self.function = nn.Linear(4, 4), function

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


class BadText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class BadAttributes(nn.Module):
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"there is no {name}")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class BadParameters(nn.Module):
    def named_parameters(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no parameters today")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def _raises(error: BaseException) -> Callable[..., Any]:
    def forward(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        raise error

    return forward


def _once() -> Callable[..., Any]:
    calls: list[int] = []

    def forward(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("only once")
        return x

    return forward


def _asserts(x: torch.Tensor) -> torch.Tensor:
    assert x.shape[0] == 7, "a batch has 7 examples"
    return x


def _decides(m: Forward, x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 1e9:
        return x
    return x @ x


@torch.jit.script
def _scripted(x: torch.Tensor) -> torch.Tensor:
    return x.view(3, 5)


#: What `forward` does wrong, and what is said of it behind "the program itself raises".
_FORWARDS: dict[str, tuple[Callable[..., Any], str]] = {
    "view": (lambda m, x: m.layer(x).view(3, 5), r"RuntimeError: shape '\[3, 5\]' is invalid for input of size 8"),
    "cat": (lambda m, x: torch.cat([x, x[:, :2]]), "RuntimeError: Sizes of tensors must match"),
    "key": (lambda m, x: {}["missing"], "KeyError: 'missing'"),
    "asserts": (lambda m, x: _asserts(x), "AssertionError: a batch has 7 examples"),
    "recursion": (lambda m, x: m(x), "RecursionError"),
    "decides": (_decides, "RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
    "memory": (lambda m, x: x.new_zeros(1 << 50) + 1, "RuntimeError: .*allocate memory"),
    "memory_error": (_raises(MemoryError()), "MemoryError"),
    "leaves": (_raises(SystemExit(5)), "SystemExit: 5"),
    "bad_text": (_raises(BadText()), r"BadText: \(its message cannot be read: RuntimeError\)"),
    "no_text": (_raises(ValueError("\n\n  \n")), "ValueError"),
    "long_text": (_raises(ValueError("x" * 1_000_000)), "ValueError: x{300}"),
    "odd_text": (_raises(ValueError("\n größe \U0001f600 \ud800\n\n2nd")), r"ValueError: größe \U0001f600 \\ud800"),
    "group": (_raises(ExceptionGroup("many", [ValueError("a"), KeyError("b")])), "ExceptionGroup: many"),
    "exhausted": (lambda m, x: next(iter([])), "StopIteration"),
    "attribute": (lambda m, x: m.nothing(x), "AttributeError: 'Forward' object has no attribute 'nothing'"),
    "undefined": (lambda m, x: nothing(x), "NameError: name 'nothing' is not defined"),  # noqa: F821
    "text": (lambda m, x: x + "a", r"TypeError: unsupported operand type\(s\) for \+: 'Tensor' and 'str'"),
    "index": (lambda m, x: x[5], "IndexError: index 5 is out of bounds"),
    "divides": (lambda m, x: x * (1 / 0), "ZeroDivisionError"),
    "second_call": (_once(), "RuntimeError: only once"),
    "scripted": (lambda m, x: _scripted(x), r"RuntimeError: shape '\[3, 5\]' is invalid for input of size 8"),
    "imports": (lambda m, x: __import__("no_such_package").f(x), "ModuleNotFoundError: No module named"),
}
#: What a function does wrong that is to return a program, and what is said of it.
_MAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "calls_sequential": (
        lambda: (nn.Sequential(nn.Linear(4, 4), nn.Linear(5, 4)), (X,)),
        r"itself raises RuntimeError: mat1 and mat2 shapes cannot be multiplied \(2x4 and 5x4\) \(submodule 1\)$",
    ),
    "too_many": (lambda: (nn.Linear(4, 4), (X, X)), "itself raises TypeError: .* but 3 were given"),
    "too_few": (lambda: (nn.Bilinear(4, 4, 4), (X,)), "itself raises TypeError: .*: 'input2'"),
    "keyword": (lambda: (nn.Linear(4, 4), (), {"inputs": X}), "itself raises TypeError: .* 'inputs'"),
    "dtypes": (lambda: (nn.Linear(4, 4), (X.double(),)), "itself raises RuntimeError: .*the same dtype"),
    "no_arguments": (lambda: (nn.Linear(4, 4), None), "itself raises TypeError: .*must be Tensor, not NoneType"),
    "a_class": (lambda: (nn.Linear, (X,)), "itself raises TypeError: .*'out_features'"),
    "no_forward": (lambda: (type("Empty", (nn.Module,), {})(), (X,)), 'itself raises NotImplementedError: .*"forward"'),
    "meta": (lambda: (nn.Linear(4, 4, device="meta"), (X,)), "weight is on the meta device and has no values"),
    "device": (lambda: (Forward(lambda m, x: x.to("cuda")), (X,)), "itself raises .*CUDA"),
    "bad_attributes": (lambda: (BadAttributes(), (X,)), "it raised RuntimeError: there is no .*" + _LINE),
    "bad_parameters": (lambda: (BadParameters(), (X,)), "it raised RuntimeError: no parameters today" + _LINE),
    "interrupts": (lambda: (Forward(_raises(KeyboardInterrupt())), (X,)), "it raised KeyboardInterrupt" + _LINE),
    "stops": (lambda: (Forward(_raises(GeneratorExit())), (X,)), "it raised GeneratorExit" + _LINE),
    "no_tensor": (lambda: (Forward(lambda m, x: None), (X,)), "returns no tensor"),
    "none": (lambda: None, "what it returned is a NoneType; return"),
    "module": (lambda: nn.Linear(4, 4), "what it returned is a Linear; return"),
    "no_program": (lambda: (3, (X,)), "what it returned is a tuple of 2; return"),
    "five": (lambda: (nn.Linear(4, 4), (X,), {}, {}, {}), "what it returned is a tuple of 5; return"),
    "empty": (list, "it returned an empty list"),
    "mixed": (lambda: [(nn.Linear(4, 4), (X,)), None], "item 1 of what it returned is a NoneType"),
    "raises": (lambda: torch.load("/nowhere/x.pt"), r"it raised FileNotFoundError: .* \(line \d+\)$"),
    "raises_badly": (lambda: _raises(BadText())(None, X), r"it raised BadText: .*RuntimeError\) \(line \d+\)$"),
}


def right() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU()), (X,)


def needs(argument: Any) -> Any: ...


SAYS["needs"] = "it raised TypeError: needs.* 'argument'"
for _name, (_function, _words) in _FORWARDS.items():
    globals()[_name] = lambda function=_function: (Forward(function), (X,))
    SAYS[_name] = f"the program itself raises {_words}.*{_LINE}"
for _name, (_make, _words) in _MAKES.items():
    globals()[_name] = _make
    SAYS[_name] = _words
