"""Copies of arguments share nothing with them but what Python cannot copy."""

from __future__ import annotations

import collections
import dataclasses
import threading
import types
from typing import Any

import torch
from transformers.modeling_outputs import BaseModelOutput

from mindgap.graph_capture import capture
from mindgap.graph_capture.deep_copies import deep_copy, fresh_copy, shared_names, tensors_within

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass(frozen=True)
class Step:
    state: torch.Tensor
    lock: Any = None


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


class ReadOnly(collections.OrderedDict[str, Any]):
    closed = False

    def __setitem__(self, key: str, value: Any) -> None:
        if type(self).closed:
            raise TypeError("read-only")
        super().__setitem__(key, value)


class Tagged(torch.Tensor):
    pass


def test_views_of_one_memory_are_views_of_one_copy() -> None:
    base = torch.arange(6.0)
    given = {"base": base, "views": [base[2:], base.reshape(2, 3).T], "apart": torch.zeros(2, requires_grad=True) * 2}
    made = fresh_copy(given)
    made["base"][3] = 9
    assert made["views"][0][1] == 9 and made["views"][1][0, 1] == 9 and base[3] == 3
    assert made["views"][1].stride() == (1, 3) and made["apart"].requires_grad


def test_every_usual_holder_of_tensors_is_copied() -> None:
    x = torch.ones(2, requires_grad=True)
    holders = [
        Pair(x, [x]), Step(x), Slotted(x), BaseModelOutput(last_hidden_state=x), collections.deque([x]),
        types.SimpleNamespace(x=x), types.MappingProxyType({"x": x}), x.as_subclass(Tagged), torch.nn.Parameter(x),
        x.to_sparse(), torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), x * 2,
    ]  # fmt: skip
    for given, made in zip(holders, fresh_copy(holders), strict=True):
        assert type(made) is type(given), type(given)
        ((before, *_), (after, *_)) = tensors_within(given), tensors_within(made)
        assert after is not before and type(after) is type(before), type(given)
        assert after.requires_grad == before.requires_grad
        assert str(after.detach()) == str(before.detach()), type(given)


def test_what_cannot_be_copied_is_shared_and_named() -> None:
    steps, config = (each for each in range(3)), ReadOnly(a=1)
    ReadOnly.closed = True
    held = {
        "steps": steps,
        "locked": Step(torch.zeros(2), threading.Lock()),
        "config": config,
        "at": iter([1, 2]),
    }
    made = deep_copy(held, {})
    assert made["steps"] is steps and made["config"] is held["config"] and made["locked"].lock is held["locked"].lock
    assert next(made["at"]) == next(held["at"]) == 1
    assert made["locked"].state is not held["locked"].state
    # A lock and a read-only mapping are as they were after any run.
    assert shared_names(held) == ["steps (generator)"]


class Hooked(torch.nn.Module):
    """A hook that refers to the module keeps what a layer gives, and the module reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.kept = torch.nn.Linear(2, 2), dict[str, torch.Tensor]()

        def keep(module: torch.nn.Module, args: object, output: torch.Tensor) -> None:
            del module, args
            self.kept["layer"] = output

        self.layer.register_forward_hook(keep)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.layer(x)
        return self.kept["layer"].relu()


def test_a_hook_of_a_copy_refers_to_the_copy() -> None:
    module, x = Hooked(), torch.ones(1, 2)
    copied = deep_copy(module, {})
    expected = copied(x)
    assert not module.kept and torch.equal(expected, module(x))
    assert len(capture(module, (x,)).nodes) > 0
