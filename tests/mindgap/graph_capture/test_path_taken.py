"""Decisions by values are captured along the path that was taken, and recorded with line, expression and outcome."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from mindgap.aten.tape import Tape
from mindgap.graph import Graph, decode, encode
from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import CaptureError, capture, value_table
from mindgap.graph_capture.errors import PathTaken, UnprovenCapture

X = torch.tensor([[0.1, 0.2, -0.3, 0.4], [0.5, -0.1, 0.2, 0.3], [0.4, 0.2, 0.6, 0.1]])
CALLS: list[int] = []
pytestmark = pytest.mark.filterwarnings("ignore")


def branches(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x.sin()
    return x.cos()


def truth(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x[0, 0] else x


def reads(x: torch.Tensor) -> torch.Tensor:
    return x[:, : int(x.max() * 5)] * x.max().item()


def converges(x: torch.Tensor) -> torch.Tensor:
    while abs(1 - x.abs().max().item() * 2 + 1) / 2 < 0.9:
        x = x / 2
    return x


def rounds(x: torch.Tensor) -> torch.Tensor:
    size = x.sum().item()
    return x * math.floor(size) + math.ceil(size) + round(size)


def none(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.max().item() in (None, "0.6", float(X.max())) else x


def at_random(x: torch.Tensor) -> torch.Tensor:
    CALLS.append(0)
    return x + 1 if len(CALLS) % 3 == 0 else x


def lists(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    first, second = (x[0, :2] * 10).long().tolist()
    return torch.split(x.flatten()[: first + second], [first, second])


def equals(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if torch.equal(x, x + 0) and not torch.allclose(x, x + 1) else x - 1


def draws(x: torch.Tensor) -> torch.Tensor:
    return x if (torch.rand(3, 4) + x).sum() > 0 else -x


def masked(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0] * 2


def positive(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.where(x > 0.15)


def distinct(x: torch.Tensor) -> torch.Tensor:
    return torch.unique((x * 3).round())


def selected(x: torch.Tensor) -> torch.Tensor:
    return torch.masked_select(x, x > 0.15).reshape(2, -1)


def repeated(x: torch.Tensor) -> torch.Tensor:
    return torch.repeat_interleave(x, (x[:, 0] * 10).long(), dim=0)


def path_of(program: Callable[..., Any], tensors: TensorStore) -> tuple[Graph, list[tuple[str, str]]]:
    graph = capture(program, (X,), tensors=tensors, path_taken=True)
    return graph, [(each.kind, each.taken) for each in graph.labels.decisions]


@pytest.mark.parametrize(("program", "expected"), [
    (branches, [("branch", "True")]),
    (truth, [("branch", "True")]),
    (reads, [("number", "3"), ("number", str(X.max().item()))]),
    (lists, [("number", "1"), ("number", "2")]),
    (equals, [("branch", "True"), ("branch", "False")]),
    (draws, [("branch", "True")]),
    (masked, [("count", "10")]),
    (positive, [("count", "8")]),
    (distinct, [("size", "4")]),
    (selected, [("count", "8")]),
    (repeated, [("count", "10")]),
])  # fmt: skip
def test_decisions_are_outputs_with_what_they_came_to(
    program: Callable[..., Any], expected: list[tuple[str, str]], store: TensorStore
) -> None:
    graph, path = path_of(program, store)
    assert path == expected
    # A decision stands behind what the program returns, in the file too.
    assert [each.output for each in graph.labels.decisions] == list(
        range(len(graph.outputs) - len(path), len(graph.outputs))
    )
    assert decode(encode(graph)).labels == graph.labels


def test_line_and_expression(store: TensorStore) -> None:
    graph, _ = path_of(branches, store)
    (one,) = graph.labels.decisions
    first = inspect.getsourcelines(branches)[1]
    assert (one.line, one.text) == (f"test_path_taken.py:{first + 1}", "x.sum() > 0")


def test_what_python_computes_of_a_number_is_compared_in_the_graph(store: TensorStore) -> None:
    """The decisions follow other arguments, as the program would."""
    graph, path = path_of(converges, store)
    conditions = [each for each in graph.labels.decisions if each.kind == "branch"]
    assert [each.taken for each in conditions] == ["True", "True", "True", "False"]
    outputs = Tape(graph).run([X / 4])
    assert [bool(outputs[each.output]) for each in conditions] == [True, False, False, False]
    assert len(path) == 8
    _, path = path_of(rounds, store)
    assert [taken for kind, taken in path[1:]] == [str(f(X.sum().item())) for f in (math.floor, math.ceil, round)]


def test_it_is_told_and_refused_without(store: TensorStore) -> None:
    with pytest.warns(PathTaken, match=r"`x.sum\(\) > 0` at line test_path_taken.py:\d+ is True"):
        capture(branches, (X,), tensors=store, path_taken=True)
    for program in (branches, reads, masked, equals):
        with pytest.raises(CaptureError, match=r"; --path-taken captures the path that these arguments take"):
            capture(program, (X,), tensors=store)
    with pytest.raises(CaptureError, match="path_taken= is for graphs of calls"):
        capture(branches, (X,), tensors=store, path_taken=True, backward=True)


def test_sizes_that_no_other_arguments_give_are_proven_by_the_given_ones_alone(store: TensorStore) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x[x == 0.4].reshape(1, 2)

    with pytest.warns(UnprovenCapture, match="other arguments give others"):
        capture(program, (X,), tensors=store, path_taken=True)


def test_a_program_that_changes_behind_the_path_is_refused(store: TensorStore) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        CALLS.append(0)
        return x + len(CALLS) if x.sum() > 0 else x

    with pytest.raises(CaptureError, match="replays differently"):
        capture(program, (X,), tensors=store, path_taken=True)


def test_arguments_without_values_and_endless_decisions_are_refused(
    store: TensorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CaptureError, match="its arguments have none"):
        capture(branches, (torch.empty(3, 4, device="meta"),), weights="seeded", path_taken=True)

    def endless(x: torch.Tensor) -> torch.Tensor:
        while x.abs().max() > -1:
            x = x * 1
        return x

    monkeypatch.setattr(value_table, "_DECISIONS", 20)
    with pytest.raises(CaptureError, match="decides more than 20 times by values"):
        capture(endless, (X[:1, :1],), tensors=store, path_taken=True)


POSITIVE = X @ X.T + torch.eye(3)


class Packed(torch.nn.Module):
    """A recurrent layer over sequences of several lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.LSTM(4, 3, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return torch.nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0]


def bags(indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding_bag(indices, X, offsets, padding_idx=0, mode="mean")


def factor(a: torch.Tensor) -> torch.Tensor:
    return torch.linalg.cholesky((a + a.mT) / 2)


def residuals(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.linalg.lstsq(a, b, driver="gelsd").residuals


@pytest.mark.parametrize(("program", "args"), [
    (bags, (torch.tensor([1, 2, 0, 2, 1, 0, 2, 1]), torch.tensor([0, 3, 3, 6]))),
    (torch.searchsorted, (torch.arange(5.0), X * 5)),
    (torch.bucketize, (X * 5, torch.arange(5.0))),
    (factor, (POSITIVE,)),
])  # fmt: skip
def test_arguments_keep_what_operators_demand(
    program: Callable[..., Any], args: tuple[torch.Tensor, ...], store: TensorStore
) -> None:
    assert capture(program, args, tensors=store).labels.decisions == ()


@pytest.mark.parametrize(("program", "args", "sizes"), [
    (Packed(), (torch.stack([X, X, X]), torch.tensor([1, 3, 2])), [("count", "6")]),
    (residuals, (X.T, X.T[:, :2]), [("size", "2")]),
    (residuals, (torch.ones(4, 3), X.T[:, :2]), [("size", "0")]),
    (torch.nn.functional.one_hot, (torch.tensor([2, 0, 1]),), [("size", "3x3")]),
])  # fmt: skip
def test_sizes_of_other_operators_are_recorded(
    program: Callable[..., Any], args: tuple[torch.Tensor, ...], sizes: list[tuple[str, str]], store: TensorStore
) -> None:
    """The bits of LAPACK's results depend on where in memory its operands are."""
    graph = capture(program, args, tensors=store, path_taken=True)
    assert [(each.kind, each.taken) for each in graph.labels.decisions][: len(sizes)] == sizes


def test_a_number_equals_nothing_that_is_no_number(store: TensorStore) -> None:
    path = capture(none, (X,), tensors=store, path_taken=True).labels.decisions
    assert [each.taken for each in path if each.kind == "branch"] == ["True"]


def test_a_program_that_takes_another_way_each_time_is_not_proven_by_one_that_agrees(store: TensorStore) -> None:
    CALLS.clear()
    with pytest.raises(CaptureError, match="replays differently"):
        capture(at_random, (X,), tensors=store)
