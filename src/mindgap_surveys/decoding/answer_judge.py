"""Compares answers to one example with the answer alone, bit by bit; the oracle judges those with other bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mindgap.graph import Array, Graph, MindgapError
from mindgap.graph.compare.digest import digest_array
from mindgap.judge.trace.metrics import row_metrics
from mindgap.platforms.name import CPU_EAGER, PlatformName
from mindgap.run.pool import WorkerPool

if TYPE_CHECKING:
    from mindgap.judge.trace.judge import Judge

Question = Literal[
    "repeat", "process", "threads", "batch size", "position", "neighbours", "length", "eager mode", "padding",
    "chunked", "decoding", "static cache", "generate",
]  # fmt: skip
#: - `identical`: the bits of the answer that it is compared with.
#: - `rounding`: other bits, and both answers are within rounding of the graph.
#: - `beyond`: further off than rounding of the graph leads, where the answer alone is not.
#: - `unjudged`: other bits; whether rounding explains them is not known.
#: - `not_run`: the platform refused or failed.
AnswerVerdict = Literal["identical", "rounding", "beyond", "unjudged", "not_run"]
#: What runs with the example: itself again, zeros, or others: the example with its last dimension shifted, and floats
#: made larger, by another amount at each place.
Neighbours = Literal["others", "copies", "zeros"]


@dataclass(frozen=True, slots=True)
class Condition:
    """The company of the example.

    size: the number of examples in its batch, or of tokens in its text; 0 for the example alone.
    threads: 0 for the threads of the platform's name.
    fresh: in a separate process.
    beside: while another process runs the same job.
    """

    question: Question
    label: str
    size: int = 0
    position: int = 0
    neighbours: Neighbours = "others"
    threads: int = 0
    fresh: bool = False
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the example under one condition.

    bits: the class of its bits; 0 is the class of the answer alone, and equal numbers are equal bits.
    max_abs, max_rel: the largest differences to the answer that it is compared with, over all outputs.
    detail: why it was not run, or is not judged.
    nan: elements that are NaN or infinite on one side only.
    token: of generated text, the number of the first token that is another one (the first is 1); 0 for none.
    """

    condition: Condition
    verdict: AnswerVerdict
    bits: int = -1
    max_abs: float = 0.0
    max_rel: float = 0.0
    detail: str = ""
    token: int = 0
    nan: int = 0


class AnswerJudge:
    """Compares the answers that one platform gives.

    `graph`, `inputs`: of the example alone, whose oracle judges. `alone`: the platform's answer to it. `notes`: gets
    what a reader has to know besides.
    """

    def __init__(
        self, graph: Graph, inputs: Sequence[Array], platform: PlatformName, pool: WorkerPool, alone: Sequence[Array],
        notes: list[str],
    ) -> None:  # fmt: skip
        self._graph, self._inputs, self._platform, self._pool = graph, inputs, platform, pool
        self._alone, self._notes = alone, notes
        self._classes: dict[tuple[str, ...], int] = {digests(alone): 0}
        self._beyond: dict[tuple[str, ...], bool] = {}
        self._judge: Judge | None = None

    def answer(self, condition: Condition, parts: Sequence[Array], base: Sequence[Array], token: int = 0) -> Answer:
        """Compares `parts` with `base`, both shaped as the graph's outputs."""
        bits = self._classes.setdefault(digests(parts), len(self._classes))
        if digests(base) == digests(parts):
            return Answer(condition, "identical", bits, token=token)
        metrics = row_metrics(parts, base, None)
        far = (float(metrics.get("max_abs") or 0.0), float(metrics.get("max_rel") or 0.0))
        nan = int(metrics.get("nan_mismatch") or 0) + int(metrics.get("inf_mismatch") or 0)
        return Answer(condition, self.verdict(parts, base), bits, *far, token=token, nan=nan)

    def verdict(self, parts: Sequence[Array], base: Sequence[Array]) -> AnswerVerdict:
        """Returns whether rounding explains why two answers differ: each of them is within rounding of the graph."""
        from mindgap.judge.oracle import OracleError

        try:
            if self._is_beyond(self._alone):
                self.note(
                    "the answer alone is further off than rounding of the declared dtypes leads (mindgap diff says "
                    "why):  other bits are not judged"
                )
                return "unjudged"
            return "beyond" if self._is_beyond(parts) or self._is_beyond(base) else "rounding"
        except (OracleError, MindgapError) as error:
            self.note(f"other bits are not judged: {error}")
            return "unjudged"

    def note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    def _is_beyond(self, answer: Sequence[Array]) -> bool:
        key = digests(answer)
        if key not in self._beyond:
            self._beyond[key] = any(self._the_judge().beyond_rounding(answer))
        return self._beyond[key]

    def _the_judge(self) -> Judge:
        if self._judge is None:
            from mindgap.judge.trace.judge import Judge
            from mindgap.platforms.protocol import ACCURACY

            accuracy = str(self._pool.describe(self._platform).get(ACCURACY, ""))
            self._judge = Judge(self._graph, self._inputs, self._pool.run, CPU_EAGER, accuracy=accuracy)
        return self._judge


def digests(arrays: Sequence[Array]) -> tuple[str, ...]:
    return tuple(digest_array(array) for array in arrays)
