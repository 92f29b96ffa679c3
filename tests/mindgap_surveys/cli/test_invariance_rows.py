"""The rows and tables of `mindgap invariance`, and what is printed of them."""

from __future__ import annotations

import io
from dataclasses import replace

from mindgap.cli.streams import Exit
from mindgap.platforms.name import CPU_EAGER
from mindgap.platforms.registry import canonical
from mindgap_surveys.cli.answer_outputs import status_of_answers
from mindgap_surveys.cli.invariance_rows import answer_rows, more_tables
from mindgap_surveys.cli.study_text import print_page
from mindgap_surveys.decoding.answer_judge import Answer, Condition
from mindgap_surveys.decoding.decoding import Divergence
from mindgap_surveys.decoding.invariance import Invariance
from mindgap_surveys.decoding.kernel_choice import KernelChoice
from mindgap_surveys.report.answer_page import answer_junit, answer_page
from mindgap_surveys.report.study_page import study_page

ANSWERS = (
    Answer(Condition("repeat", "again"), "identical", 0),
    Answer(Condition("padding", "4 left"), "rounding", 1, 1e-7, 1e-4),
    Answer(Condition("padding", "4 right"), "beyond", 2, 0.0, 0.0, nan=12, token=3),
    Answer(Condition("generate", "compiled"), "not_run", detail="it raised RuntimeError"),
)
KERNELS = (KernelChoice(3, "aten.mm.default", "head (model.py:7)", ((1, 8), (8, 4)), 1, 2, ((1,), (2, 4))),)
DIVERGENCE = Divergence(
    "free-running", CPU_EAGER, (0.0, 0.25, 0.5, 0.125), (False, True, True, False), 0.01, "rounding"
)
FOUND = Invariance("m", canonical("onnxruntime/cpu"), ANSWERS, (), KERNELS, (DIVERGENCE,), ("a note",))


def test_a_line_for_each_question_verdict_and_class_of_bits() -> None:
    more = (Answer(Condition("position", str(n), 8, n), "rounding", 1, 10.0**-n) for n in (7, 6))
    found = replace(FOUND, answers=(*ANSWERS, *more))
    page = answer_page("m", "lead", [*answer_rows([found], False)], [*more_tables([found])], found.notes)
    print_page(page, out := io.StringIO())
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    for line in (
        "m on onnxruntime/cpu",
        "repeat again identical",
        "padding 4 left rounding classes 1, max abs 1e-07, max rel 0.0001",
        "padding 4 right beyond classes 2, NaN 12, other token 3",
        "generate compiled not run it raised RuntimeError",
        "position 7, 6 rounding classes 1, max abs 1e-06 in a batch of 8",
        "aten.mm.default head (model.py:7) [1,8] × [8,4] 2 1 | 2 4",
        "a note",
    ):
        assert line in lines
    (row,) = (line for line in lines if line.startswith("divergence"))
    assert row.startswith("divergence free-running rounding first step 2, first other token 2, same from 4, ahead by")


def test_rows_carry_what_the_exit_status_is_made_of() -> None:
    rows = [*answer_rows([FOUND], require_identical=False)]
    assert [(each.label, each.state) for each in rows] == [
        ("again", "passed"), ("4 left", "passed"), ("4 right", "found"), ("compiled", "unknown"),
        ("free-running", "passed"),
    ]  # fmt: skip
    assert rows[-1].numbers["first step"] == 2 and rows[-1].numbers["same from"] == 4
    assert [each.state for each in answer_rows([FOUND], require_identical=True)].count("found") == 3
    assert status_of_answers(rows) == Exit.FINDINGS
    assert status_of_answers([each for each in rows if each.state != "found"]) == Exit.WRONG_USE
    assert status_of_answers([each for each in rows if each.state == "passed"]) == Exit.NOTHING_FOUND
    assert status_of_answers([]) == Exit.WRONG_USE


def test_the_page_and_the_xml_hold_every_answer() -> None:
    rows = [*answer_rows([replace(FOUND, model="<m>\x00")], require_identical=False)]
    page = study_page(answer_page("<m>", "lead", rows, [*more_tables([FOUND])], FOUND.notes))
    for text in ("&lt;m&gt;", "4 right", "1 | 2 4", "another token", "a note", "max abs 1e-07"):
        assert text in page
    xml = answer_junit(rows)
    assert 'tests="5" failures="1" errors="1"' in xml and "\x00" not in xml and "it raised RuntimeError" in xml
