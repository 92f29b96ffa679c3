"""Makes rows and tables of what `mindgap invariance` measured of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mindgap.results.answer_rows import AnswerRow, State
from mindgap_surveys.table import StudyTable, made

if TYPE_CHECKING:
    from mindgap_surveys.decoding.invariance import Invariance
    from mindgap_surveys.decoding.kernel_choice import KernelChoice


def answer_rows(found: Sequence[Invariance], require_identical: bool) -> Iterator[AnswerRow]:
    """Yields a row for each answer, and for each divergence between platforms."""
    for one in found:
        for answer in one.answers:
            numbers = {
                "classes": answer.bits, "max abs": answer.max_abs, "max rel": answer.max_rel, "NaN": answer.nan,
                "other token": answer.token,
            }  # fmt: skip
            where = answer.condition
            company = f"in a batch of {where.size}" if where.question in ("position", "neighbours") else ""
            yield AnswerRow(
                one.model, str(one.platform), where.question, where.label, answer.verdict,
                state_of(answer.verdict, require_identical), answer.detail or company, numbers,
            )  # fmt: skip
        for each in one.divergences:
            numbers = {
                "first step": each.first_step, "first other token": each.first_token, "same from": each.rejoined,
                "ahead by": each.margin or 0.0, "max abs": max(each.distances),
            }  # fmt: skip
            yield AnswerRow(
                one.model, str(one.platform), "divergence", each.kind, each.verdict,
                state_of(each.verdict, require_identical), "", numbers,
            )  # fmt: skip


def state_of(verdict: str, require_identical: bool) -> State:
    """Returns what a verdict means for the exit status."""
    if verdict == "beyond" or (require_identical and verdict in ("rounding", "unjudged")):
        return "found"
    return "unknown" if verdict in ("not_run", "unjudged") else "passed"


def more_tables(found: Sequence[Invariance]) -> Iterator[StudyTable]:
    """Yields the tables of a page besides the answers: operators, kernels, divergences."""
    for one in found:
        where = f"{one.model} on {one.platform}"
        for title, choices in (("Operators with other bits by themselves", one.choices), ("Kernels", one.kernels)):
            if choices:
                columns = ("operator", "where", "shapes", "nodes", "sizes that share bits")
                yield made("", f"{title}: {where}", columns, map(_choice, choices))
        for each in one.divergences:
            steps = zip(each.distances, each.other_tokens, strict=True)
            rows = [(str(n), f"{far:.3g}", "yes" if other else "") for n, (far, other) in enumerate(steps, 1)]
            title = f"Divergence, {each.kind}: {where} against {each.reference}"
            yield made("", title, ("step", "largest difference of logits", "another token"), rows)


def _choice(each: KernelChoice) -> tuple[str, ...]:
    shapes = " × ".join(f"[{','.join(map(str, shape))}]" for shape in each.shapes)
    sizes = " | ".join(" ".join(map(str, alike)) for alike in each.classes) or "not run"
    return each.op, each.label, shapes, str(each.nodes), sizes
