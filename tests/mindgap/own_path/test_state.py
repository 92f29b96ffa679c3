"""What a program and its arguments hold is as before after a run, and what cannot be restored is left alone."""

from __future__ import annotations

import collections
import random
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mindgap.own_path.program_run import FlatProgram, run_eagerly, run_twice
from mindgap.own_path.search import first_part
from mindgap.own_path.state import State, as_it_was
from mindgap.platforms.script_runner import ScriptRunner


class Box:
    def __init__(self, held: Any) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        raise TypeError("not comparable")

    __hash__ = None  # type: ignore[assignment] # as where `__eq__` alone is defined


class Refusing(collections.OrderedDict[str, int]):
    def update(self, *_: object, **__: object) -> None:
        raise TypeError("read-only")

    def __deepcopy__(self, _: object) -> Any:
        raise TypeError("no copies")


class Everything(nn.Module):
    def __init__(self, file: Any) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.register_buffer("sparse", torch.eye(3).to_sparse())
        self.register_buffer("meta", torch.zeros(2, device="meta"))
        self.register_buffer("lazy", nn.parameter.UninitializedBuffer())
        self.box, self.log, self.steps = Box(torch.zeros(2)), [], iter([1.0, 2.0, 3.0, 4.0])
        self.config, self.proxy = Refusing(a=1), types.MappingProxyType({"a": 1})
        self.drawn, self.numpy = torch.Generator().manual_seed(0), np.random.default_rng(0)
        self.array, self.file, self.nested = np.zeros(2), file, {"held": [Box(0)]}
        self.numbers: Iterator[int] = (each for each in range(9))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            raise AttributeError(name)
        super().__setattr__(name, value)

    @property
    def total(self) -> float:
        raise RuntimeError("not to be read")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.data.add_(1)
        self.box.held = self.box.held + 1
        self.log.append(x)
        np.add(self.array, 1, out=self.array)
        self.nested["held"][0].held += 1
        more = next(self.steps) + self.numpy.random() + random.random() + np.random.rand() + len(self.file.readline())
        return x + self.count + self.box.held + more + torch.rand(2, generator=self.drawn) + self.nested["held"][0].held


def test_all_that_a_call_changes_is_as_before(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("a\nbb\nccc\ndddd\n")
    with (tmp_path / "lines").open() as file:
        model = Everything(file)
        flat = FlatProgram(model, (torch.ones(2),), {})
        first = run_eagerly(flat)
        assert all(np.array_equal(run_eagerly(flat), first) for _ in range(3))
        assert model.log == [] and model.box.held.sum() == 0 and next(model.numbers) == 0
        changed = {path for path, _ in run_twice(flat, lambda call: call()).changes}
    assert {"count", "box", "log", "array", "nested", "drawn", "numpy", "file"} <= changed
    assert not changed & {"sparse", "meta", "lazy", "config", "proxy"}


def test_a_call_that_raises_leaves_all_as_before() -> None:
    class Raises(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))
            self.cache: list[Any] = [torch.zeros(1)]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            self.cache[0] = x
            self.other = 1
            raise ValueError

    model = Raises()
    with pytest.raises(ValueError), as_it_was(model):
        model(torch.ones(1))
    assert model.count == 0 and model.cache[0] == 0 and not hasattr(model, "other")


class Growing(nn.Module):
    def forward(self, x: torch.Tensor, cache: Any, box: Any = None) -> torch.Tensor:
        cache[0] = torch.cat([cache[0], x])
        if box is not None:
            box.held = torch.cat([box.held, x])
        return cache[0].sum() + (0 if box is None else box.held.sum())


def test_each_run_is_given_arguments_as_they_were() -> None:
    cache, box = [torch.ones(2)], Box(torch.ones(3))
    flat = FlatProgram(Growing(), (torch.ones(1), cache), {"box": box})
    assert run_eagerly(flat)[0] == run_eagerly(flat)[0] == 7
    calls = run_twice(flat, lambda call: call())
    assert calls.first[0] == calls.second[0] == 7 and calls.grown == ["cache", "box"] and calls.changes == []
    assert len(cache[0]) == 2 and len(box.held) == 3


def test_an_object_that_a_run_fills_is_passed_on_as_an_argument() -> None:
    flat = FlatProgram(lambda x, box: _put(x, box), (torch.ones(1), Box(None)), {})
    assert flat.objects == []
    filled = run_twice(flat, lambda call: call()).filled
    again = FlatProgram(flat.program, (torch.ones(1), Box(None)), {}, filled=filled)
    assert len(again.objects) == 1 and run_eagerly(again)[0] == 1


def _put(x: torch.Tensor, box: Box) -> torch.Tensor:
    box.held = x if box.held is None else torch.cat([box.held, x])
    return box.held.sum()


def test_a_scripted_module_is_left_alone() -> None:
    model = torch.jit.script(nn.BatchNorm1d(2).train())
    with as_it_was(model) as state:
        model(torch.ones(3, 2))
    assert model.running_mean.sum() == 0 and state.changes({}) == []


def test_arguments_are_compared_by_name() -> None:
    given = {"a": [torch.zeros(1)], "b": torch.zeros(1), "c": {"d": 1}}
    state = State(None, given)
    given["a"].append(1)
    given["b"].data += 1
    assert [name for name, _ in state.changes({})] == ["a", "b"]


class Weights(nn.Module):
    """Writes to one parameter in place, puts another one in its place, and gives a third other memory."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.put, self.swapped, self.kept = (nn.Linear(2, 2) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.written.weight[0].add_(1)
        self.put.weight = nn.Parameter(self.put.weight + 1)
        self.swapped.weight.data = self.swapped.weight.data + 1
        return self.kept(self.swapped(self.put(self.written(x))))


def test_parameters_that_a_call_changes_are_as_before_and_no_other_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    model, saved = Weights(), list[str]()
    before = {name: (each, each.data_ptr(), each.detach().clone()) for name, each in model.named_parameters()}
    usual = State._tensor

    def noted(state: State, tensor: torch.Tensor, path: str, owner: Any, name: str) -> None:
        saved.append(path)
        usual(state, tensor, path, owner, name)

    monkeypatch.setattr(State, "_tensor", noted)
    flat = FlatProgram(model, (torch.ones(1, 2),), {})
    calls = run_twice(flat, lambda call: call())
    changes = dict(calls.changes)
    assert changes.keys() == {"written.weight", "put.weight", "swapped.weight"}
    assert changes["written.weight"].startswith("test_state.py:") and set(saved) == {"written.weight", "x"}
    assert not np.array_equal(calls.first[0], calls.second[0])
    assert all(np.array_equal(run_eagerly(flat)[0], calls.first[0]) for _ in range(2))
    now = dict(model.named_parameters())
    for name, (parameter, memory, elements) in before.items():
        assert now[name] is parameter and parameter.data_ptr() == memory and torch.equal(parameter, elements)


class _Collects(torch.nn.Module):
    """Registers a hook at its first call, and notes that it has, as models of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(2, 2), torch.nn.LazyLinear(2)
        self.taken: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not getattr(self, "installed", False):
            self.first.register_forward_hook(lambda module, given, out: self.taken.append(out))
            self.installed = True
        self.taken.clear()
        out = self.second(self.first(x))
        return out + len(self.taken)


def test_hooks_that_a_first_call_registers_are_registered_once() -> None:
    program, x = _Collects(), torch.ones(1, 2)
    outputs: list[torch.Tensor] = []
    for _ in range(3):
        with as_it_was(program):
            outputs.append(program(x).detach())
        assert not program.first._forward_hooks
    assert outputs[1].equal(outputs[0]) and outputs[2].equal(outputs[0])


class _Steps(torch.nn.Module):
    """Counts its calls, as a scheduler of diffusers counts its steps."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.step = torch.nn.Linear(2, 2), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.step += 1
        return self.layer(x) * self.step


@pytest.mark.parametrize("apart", [None, 0.5])
def test_a_search_for_the_submodule_leaves_the_program_as_it_was(apart: float | None) -> None:
    program = _Steps()
    text = "def run(model, fresh):\n    return [-each for each in model(*fresh())]"
    refuses = "def run(model, fresh):\n    raise RuntimeError('refused')"
    found = first_part(program, (torch.ones(1, 2),), {}, ScriptRunner(text if apart else refuses), 20.0, apart)
    assert found.path == "layer" and program.step == 0
