"""Makes sentences of reasons, for details, pages and terminals. Nothing reads them back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mindgap.graph.compare.reason import Reason, ReasonKind

#: Names that are listed.
_MOST: Final = 4
#: The sentence of each kind; `{names}` and `{message}` are the reason's. Kinds without one add nothing to a detail.
_SENTENCES: Final[Mapping[ReasonKind, str]] = {
    "custom_operator": "It calls the custom operator {names}, which this way does not know",
    "environment_question": "It asks how it is run: {names}",
    "state_not_kept": (
        "What was exported does not keep what the program keeps for its next call: each call changes {names}"
    ),
    "dynamic_size": "{message} with dynamic dimensions is wrong or fails",
    "fixed_value": "A value that was computed from an argument, or a branch that was taken for it, is fixed in it",
    "tracer_warning": "Tracing warned: {names}",
    "random": "Besides, the program draws random numbers at {names}",
    "training": "In training mode: {names}",
    "inputs_by_order": "Its inputs were matched by order: {names}; --input-map ARGUMENT=INPUT changes that",
    "unwritten_arguments": (
        "the program writes in place to arguments that what was exported leaves as they are: {names}"
    ),
    "sizes_not_compared": "dynamic dimensions: not compared: {message}",
    "no_graph": "without a captured graph nothing tells whether that is rounding",
    "time_budget": "the time budget was used up",
    "interrupted": "interrupted",
    "no_judge": "whether the difference is more than rounding, and what makes it, is not proven (--no-judge)",
}  # fmt: skip


def sentence(reason: Reason) -> str:
    """Returns the sentence of a reason, without a full stop; its message where its kind has none."""
    separator = "; " if reason.kind == "tracer_warning" else ", "
    names = separator.join(reason.names[:_MOST]) + (" …" if len(reason.names) > _MOST else "")
    form = _SENTENCES.get(reason.kind)
    return reason.message if form is None else form.format(names=names, message=reason.message)


def with_sentences(text: str, reasons: Iterable[Reason]) -> str:
    """Returns a text and the sentences of reasons."""
    return ". ".join(filter(None, (text, *map(sentence, reasons))))


def joined(first: str, second: str) -> str:
    """Returns two clauses as one detail."""
    return "; ".join(filter(None, (first, second)))


def random_words(lines: Sequence[str]) -> str:
    """Returns a clause on random numbers that a program draws. `lines`: where, as of a reason `random`."""
    at = f" at {', '.join(lines[:_MOST])}" if lines else ""
    left_out = "; .eval(), and training=self.training in F.dropout, leave dropout out"
    dropout = left_out if any("(dropout)" in each for each in lines) else ""
    return f"the program draws random numbers{at}, which each side draws for itself{dropout}"
