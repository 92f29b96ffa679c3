"""Prints what `mindgap invariance` found of a model, and makes rows and tables of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TextIO

from mindgap.results.answer_rows import AnswerRow, State
from mindgap_surveys.table import StudyTable

if TYPE_CHECKING:
    from mindgap_surveys.decoding.answer_judge import Answer, Question
    from mindgap_surveys.decoding.decoding import Divergence
    from mindgap_surveys.decoding.invariance import Invariance
    from mindgap_surveys.decoding.kernel_choice import KernelChoice
_LONGEST: Final = 100


def answer_rows(found: Sequence[Invariance], require_identical: bool) -> Iterator[AnswerRow]:
    """Yields a row for each answer, and for each divergence between platforms."""
    for one in found:
        for answer in one.answers:
            numbers = {"classes": answer.bits, "max abs": answer.max_abs, "max rel": answer.max_rel}
            yield AnswerRow(
                one.model, str(one.platform), answer.condition.question, answer.condition.label, answer.verdict,
                state_of(answer.verdict, require_identical), answer.detail, {**numbers, "other token": answer.token},
            )  # fmt: skip
        for each in one.divergences:
            numbers = {"first step": each.first_step, "first other token": each.first_token, "same from": each.rejoined}
            yield AnswerRow(
                one.model, str(one.platform), "divergence", each.kind, each.verdict,
                state_of(each.verdict, require_identical), "", {**numbers, "max abs": max(each.distances)},
            )  # fmt: skip


def state_of(verdict: str, require_identical: bool) -> State:
    """Returns what a verdict means for the exit status."""
    if verdict == "beyond" or (require_identical and verdict in ("rounding", "unjudged")):
        return "found"
    return "unknown" if verdict in ("not_run", "unjudged") else "passed"


def more_sections(found: Sequence[Invariance]) -> Iterator[StudyTable]:
    """Yields the tables of a page besides the answers: operators, kernels, divergences."""
    for one in found:
        where = f"{one.model} on {one.platform}"
        for title, choices in (("Operators with other bits by themselves", one.choices), ("Kernels", one.kernels)):
            if choices:
                rows = [(each.op, each.label, _shapes(each), str(each.nodes), _classes(each)) for each in choices]
                columns = ("operator", "where", "shapes", "nodes", "sizes that share bits")
                yield StudyTable("", f"{title}: {where}", columns, tuple(rows))
        for each in one.divergences:
            steps = zip(each.distances, each.other_tokens, strict=True)
            rows = [(str(n), f"{far:.3g}", "yes" if other else "") for n, (far, other) in enumerate(steps, 1)]
            title = f"Divergence, {each.kind}: {where} against {each.reference}"
            yield StudyTable("", title, ("step", "largest difference of logits", "another token"), tuple(rows))


def print_invariance(found: Invariance, out: TextIO) -> None:
    """Prints a line per question and verdict, the operators that choose other kernels, and notes."""
    out.write(f"{found.model} on {found.platform}\n")
    for question in found.questions:
        for number, line in enumerate(_lines(question, found.of(question))):
            out.write(f"  {question if number == 0 else '':<12} {line}\n")
    for divergence in found.divergences:
        out.write(f"  {divergence.kind + ':':<15} {_divergence(divergence)}\n")
    for choice in found.choices:
        same = f"    sizes of equal bits: {_classes(choice)}\n" if len(choice.classes) > 1 else ""
        out.write(f"  other bits by itself: {_operator(choice)}\n{same}")
    if found.kernels:
        out.write("  sizes of equal bits, by operator and shape (of one example):\n")
        width = max(len(_classes(each)) for each in found.kernels)
        for each in found.kernels:
            out.write(f"    {_classes(each):<{width}}  {_operator(each)}\n")
    for note in found.notes:
        out.write(f"  note: {note}\n")
    out.write("\n")


def _lines(question: Question, answers: Sequence[Answer]) -> list[str]:
    """The answers to one question, a line for each verdict: under which conditions, and how far they are apart."""
    lines: list[str] = []
    for verdict in dict.fromkeys(answer.verdict for answer in answers):
        same = [answer for answer in answers if answer.verdict == verdict]
        labels = ", ".join(answer.condition.label for answer in same)
        company = f" in a batch of {same[0].condition.size}" if question in ("position", "neighbours") else ""
        line = f"{verdict.replace('_', ' '):<10} {labels}{company}"
        if verdict in ("rounding", "beyond", "unjudged"):
            classes = len({answer.bits for answer in same})
            farthest, relative = max(each.max_abs for each in same), max(each.max_rel for each in same)
            line += f": {classes} class{'es' * (classes > 1)} of bits"
            nan = sum(each.nan for each in same)
            line += "" if nan and not farthest else f", {farthest:.2g} apart (relative {relative:.2g})"
            line += f", NaN or infinity on one side in {nan} element{'s' * (nan > 1)}" if nan else ""
            token = min((each.token for each in same if each.token), default=0)
            line += f"; another token from token {token} on" if token else ""
        lines.append(line + (f": {same[0].detail[:_LONGEST]}" if verdict == "not_run" else ""))
    return lines


def _divergence(found: Divergence) -> str:
    steps = len(found.distances)
    if not found.first_step:
        return f"identical  {steps} steps, the bits of {found.reference}"
    shown = [step for step in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if step < steps] + [steps]
    grows = ", ".join(f"{found.distances[step - 1]:.1e}" for step in shown)
    text = f"{found.verdict:<10} {steps} steps against {found.reference}: other logits from step {found.first_step} on"
    text += f", {grows} apart at steps {', '.join(map(str, shown))}"
    if not found.first_token:
        return f"{text}; the same tokens"
    text += f"; another token at step {found.first_token} (ahead by {found.margin:.1e} there)"
    return text + (f", the same again from step {found.rejoined} on" if found.rejoined else ", and at the last step")


def _operator(choice: KernelChoice) -> str:
    where = f" ({choice.label})" if choice.label else ""
    times = f", {choice.nodes} nodes" if choice.nodes > 1 else ""
    return f"{choice.op}{where} {_shapes(choice)}{times}"


def _shapes(choice: KernelChoice) -> str:
    return " × ".join(f"[{','.join(map(str, shape))}]" for shape in choice.shapes)


def _classes(choice: KernelChoice) -> str:
    return " | ".join(" ".join(map(str, each)) for each in choice.classes) or "not run"
