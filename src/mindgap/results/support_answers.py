"""Stores and looks up the answers of a survey: which operator calls a platform runs, by operator, dtype and layout.

Answers belong to a platform's fingerprint: its versions, hardware and settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from mindgap.graph import Graph
from mindgap.platforms.name import PlatformName
from mindgap.results.store import Store
from mindgap.results.store.records import writable
from mindgap.results.support_key import Key, key_of
from mindgap.run.outcome import Outcome

#: `decomposed`: it runs, and as other operators. `refuses`: a typed refusal of every sample. `falls_back`: such a
#: refusal because another part of the runtime, or the processor, would run it. `fails`: any other end.
Word = Literal["runs", "decomposed", "refuses", "falls_back", "fails"]
WORDS: Final[tuple[Word, ...]] = ("runs", "decomposed", "fails", "falls_back", "refuses")
REFUSING: Final[frozenset[Word]] = frozenset({"refuses", "falls_back"})
RUNNING: Final = frozenset({"runs", "decomposed"})
_LONGEST: Final = 500
#: A reason that begins with something else than the operator: `model: …`, `backward: …`, a runtime's operator.
_OF_ANOTHER: Final = re.compile(r"(?!\w*(?:Error|Exception)\b)[\w.:]+: ")


@dataclass(frozen=True, slots=True)
class SupportAnswer:
    """The answer of a platform for one operator, dtype and layout, after `count` samples.

    `status`: the outcome's that decided. `reason`: what `decomposed` becomes, or the platform's message.
    """

    op: str
    dtype: str
    layout: str
    answer: Word
    status: str
    reason: str
    signature: str
    count: int

    @property
    def key(self) -> Key:
        return Key(self.op, self.dtype, self.layout)


def answer_of(key: Key, outcomes: Iterable[Outcome]) -> SupportAnswer:
    """Derives the answer from the outcomes of a key's samples.

    One sample that runs decides. A refusal takes all of them: one that ends otherwise makes it `fails`, which is a
    finding and no reason to leave the operator out.
    """
    seen = list(outcomes)
    ran = next((outcome for outcome in seen if outcome.ran), None)
    if ran is not None:
        parts: Any = ran.facts.get("decomposed", {})
        became = ", ".join(parts[key.op]) if key.op in parts else ""
        return SupportAnswer(*key, "decomposed" if became else "runs", ran.status, became, "", len(seen))
    failed = next((outcome for outcome in seen if outcome.status != "unsupported"), None)
    answering = failed or seen[0]
    # A refusal begins with the operator, which the answer names already.
    reason = " ".join(answering.message.split()).removeprefix(f"{key.op}: ")[:_LONGEST]
    word: Word = "fails" if failed else "falls_back" if answering.reason is not None else "refuses"
    return SupportAnswer(*key, word, answering.status, reason, answering.signature, len(seen))


class SupportTable:
    """Answers by fingerprint. A call without an answer is run."""

    def __init__(
        self, answers: Mapping[str, Mapping[Key, SupportAnswer]], platforms: Mapping[PlatformName, str]
    ) -> None:
        """`platforms`: each platform's fingerprint, by name."""
        self._answers = answers
        self.platforms = dict(platforms)
        self._refused: dict[str, dict[str, dict[tuple[str, str], str]]] = {}
        #: Overloads that were refused plain float32, by their name, and in any other form: all of them is
        #: refused. A refusal of something else (`model: …`) shows nothing of forms that were not requested.
        self._lacking: dict[str, dict[str, str]] = {}
        for fingerprint, known in answers.items():
            refused = self._refused.setdefault(fingerprint, {})
            able: set[str] = set()
            for key, answer in known.items():
                if answer.answer in REFUSING:
                    refused.setdefault(key.op, {})[key.dtype, key.layout] = f"{key.op}: {answer.reason}"
                else:
                    able.add(key.op)
            self._lacking[fingerprint] = {
                op: reasons["float32", "contiguous"]
                for op, reasons in refused.items()
                if op not in able
                and ("float32", "contiguous") in reasons
                and not _OF_ANOTHER.match(reasons["float32", "contiguous"].removeprefix(f"{op}: "))
            }

    def answers(self, fingerprint: str) -> Mapping[Key, SupportAnswer]:
        """Returns all answers of a platform; empty if it was never surveyed."""
        return self._answers.get(fingerprint, {})

    def refuses(self, fingerprint: str, graph: Graph) -> str | None:
        """Returns the operator that the platform refuses, with the reason; None if no answer is a refusal.

        Only typed refusals count. A call that failed is a finding, and is run.
        """
        refused = self._refused.get(fingerprint)
        if not refused:
            return None
        lacking = self._lacking[fingerprint]
        for node in graph.nodes:
            known = refused.get(node.op)
            if known is None:
                continue
            why = lacking.get(node.op) or known.get(key_of(graph, node)[1:])
            if why is not None:
                return why
        return None


def rows_of(platform: PlatformName, fingerprint: str, answers: Iterable[SupportAnswer]) -> Iterator[dict[str, Any]]:
    """Returns rows for the table `support`."""
    for answer in answers:
        texts = {"reason": writable(answer.reason), "signature": writable(answer.signature)}
        yield {"platform": platform, "fingerprint": fingerprint, **asdict(answer), **texts}


def read_support(store: Store, platforms: Mapping[PlatformName, str]) -> SupportTable:
    """Reads the answers for platforms, given by name and fingerprint."""
    by_fingerprint: dict[str, dict[Key, SupportAnswer]] = {fingerprint: {} for fingerprint in platforms.values()}
    columns = ", ".join(SupportAnswer.__dataclass_fields__)
    sql = f"SELECT fingerprint, {columns} FROM support WHERE list_contains($wanted, fingerprint)"
    for row in store.rows(sql, {"wanted": sorted(by_fingerprint)}):
        fingerprint = row.pop("fingerprint")
        answer = SupportAnswer(**row)
        by_fingerprint[fingerprint][answer.key] = answer
    return SupportTable(by_fingerprint, platforms)
