"""Computes the log-probabilities of a causal model in a local folder, and how far rounding can move them.

The oracle of the model's graph gives both, in the dtype of the folder's files: in float64 from the inputs on, with
each operator's result rounded, and with random errors of each operator's size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final

import numpy as np
import torch

from mindgap.aten.functional import functionalize
from mindgap.graph import Array, Graph, MindgapError, TensorSpec, TensorStore, materialise
from mindgap.judge.oracle import Oracle
from mindgap.judge.oracle.evaluation.formats import FORMATS
from mindgap.judge.oracle.examination import SIGMAS, expect_floor

#: Captures a call of the model without a cache, of a number of tokens and in a dtype, empty for that of its files
#: (`sources.cached_decoding`): inputs and outputs begin with tokens, int64 [1, T], and logits, [1, T, vocabulary].
GraphOf = Callable[[int, str], Graph]

#: Ends the names of inputs that hold the frequencies of rotary embeddings.
_FREQUENCIES: Final = "inv_freq"
#: Rounding of a logarithm that a server takes in float32.
_SINGLE: Final = FORMATS["float32"].u


@dataclass(frozen=True, slots=True)
class Change:
    """What a server may do otherwise, as a change of the model's inputs.

    shift: of all positions. slower: by how much rotary embeddings turn slower. base: of their frequencies, 0 for the
    model's own. bits: of each weight, by row; 0 for all.
    """

    shift: int = 0
    slower: float = 1.0
    base: float = 0.0
    bits: int = 0

    def applied(self, name: str, array: Array, role: str) -> Array:
        """The values of an input under this change."""
        if name == "position_ids":
            return array + self.shift
        if name.endswith(_FREQUENCIES):
            return (self._frequencies(array) / self.slower).astype(array.dtype)
        return _rounded_rows(array, self.bits) if self.bits and role == "parameter" and array.ndim > 1 else array

    def _frequencies(self, array: Array) -> Array:
        """Those of the base; of an infinite one, of the base that the model's own two fastest have."""
        count = array.size
        if not self.base or count < 2:
            return array
        base = float(array[0] / array[1]) ** count if np.isinf(self.base) else self.base
        return base ** (-np.arange(count) / count)


def _rounded_rows(array: Array, bits: int) -> Array:
    wide = array.astype(np.float64)
    step = np.abs(wide).max(-1, keepdims=True) / (2 ** (bits - 1) - 1)
    return (np.rint(wide / np.where(step > 0, step, 1)) * step).astype(array.dtype)


@dataclass(frozen=True, slots=True)
class LocalText:
    """Log-probabilities of all tokens after each token of a text, float64 [tokens, vocabulary].

    exact: in float64 from the inputs on. stepwise: each operator's result rounded to the model's dtype. limit: how far
    rounding leads from the nearer of them. replays: `stepwise` with random rounding errors, [replays, tokens,
    vocabulary].
    """

    exact: Array
    stepwise: Array
    limit: Array
    replays: Array


class LocalModel:
    """A causal language model. `graph_of` is called once for each number of tokens and dtype; what it raises passes."""

    def __init__(self, graph_of: GraphOf, tensors: TensorStore) -> None:
        self._graph_of, self._tensors, self._longest = cache(partial(_logits_of, graph_of)), tensors, 1

    def prepare(self, tokens: int) -> None:
        """Pads texts to so many tokens, which a causal model does not see: one capture serves all."""
        self._longest = max(self._longest, tokens)

    @property
    def logits(self) -> TensorSpec:
        graph = self._graph_of(self._longest, "")
        spec = graph.values[graph.outputs[0]]
        assert spec is not None
        return spec

    def exact(self, ids: Sequence[int], change: Change | None = None) -> Array:
        """Returns log-probabilities in float64 from the inputs on, [tokens, vocabulary]. Raises `MindgapError`."""
        oracle = self._oracle(ids, change)
        return _log_softmax(oracle.wide[oracle.graph.outputs[0]])[: len(ids)].numpy()

    def text(self, ids: Sequence[int], change: Change | None = None, dtype: str = "") -> LocalText:
        """`dtype`: of weights and operators, by default the folder's. Raises `MindgapError`."""
        oracle = self._oracle(ids, change, dtype)
        number = oracle.graph.outputs[0]
        expected = oracle.expectation(number)
        step = _log_softmax(expected.step)
        replays = torch.stack([_log_softmax(each).float() for each in oracle.replays.kept[number]])
        sigma = expect_floor((replays - step).square().mean(0).sqrt(), step.abs())
        logits = expected.step[0].double().abs()
        rounding = FORMATS[expected.dtype].u * (logits + (step.exp() * logits).sum(-1, keepdim=True))
        limit = SIGMAS * sigma + 2 * rounding + 2 * _SINGLE * step.abs()
        exact, stepwise, limits = (each[: len(ids)].numpy() for each in (_log_softmax(expected.wide), step, limit))
        return LocalText(exact, stepwise, limits, replays[:, : len(ids)].numpy())

    def _oracle(self, ids: Sequence[int], change: Change | None, dtype: str = "") -> Oracle:
        self.prepare(len(ids))
        if max(ids) >= self.logits.shape[-1]:
            raise MindgapError(f"token {max(ids)} is none of the local model's {self.logits.shape[-1]}")
        graph = self._graph_of(self._longest, dtype)
        tokens = np.array([*ids, *[ids[-1]] * (self._longest - len(ids))], np.int64)[None]
        given = [tokens, *(materialise(each, self._tensors) for each in graph.inputs[1:])]
        if change is not None:
            named = zip(graph.labels.inputs, given, graph.inputs, strict=True)
            given = [change.applied(name, array, one.role) for name, array, one in named]
        return Oracle(graph, given, keep=frozenset(graph.outputs))


def _logits_of(graph_of: GraphOf, tokens: int, dtype: str) -> Graph:
    """The functional graph without the keys and values, which a call returns too."""
    graph = functionalize(graph_of(tokens, dtype)).graph
    labels = replace(graph.labels, outputs=graph.labels.outputs[:1], decisions=())
    return replace(graph, outputs=graph.outputs[:1], labels=labels)


def _log_softmax(logits: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(logits[0].double(), -1)
