"""What `mindgap invariance` prints, and the rows and tables that it makes of it."""

from __future__ import annotations

import io
from dataclasses import replace

from mindgap.cli.streams import Exit
from mindgap.platforms.name import CPU_EAGER
from mindgap.platforms.registry import canonical
from mindgap_surveys.cli.answer_outputs import status_of_answers
from mindgap_surveys.cli.invariance_text import answer_rows, more_sections, print_invariance
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


def test_a_line_for_each_question_and_verdict() -> None:
    print_invariance(FOUND, out := io.StringIO())
    assert out.getvalue() == (
        "m on onnxruntime/cpu\n"
        "  repeat       identical  again\n"
        "  padding      rounding   4 left: 1 class of bits, 1e-07 apart (relative 0.0001)\n"
        "               beyond     4 right: 1 class of bits, NaN or infinity on one side in 12 "
        "elements; another token from token 3 on\n"
        "  generate     not run    compiled: it raised RuntimeError\n"
        "  free-running:   rounding   4 steps against cpu/eager: other logits from step 2 on, 0.0e+00, 2.5e-01, "
        "1.2e-01 apart at steps 1, 2, 4; another token at step 2 (ahead by 1.0e-02 there), the "
        "same again from step 4 on\n"
        "  sizes of equal bits, by operator and shape (of one example):\n"
        "    1 | 2 4  aten.mm.default (head (model.py:7)) [1,8] × [8,4], 2 nodes\n"
        "  note: a note\n\n"
    )


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
    page = study_page(answer_page("<m>", "lead", rows, [*more_sections([FOUND])], FOUND.notes))
    for text in ("&lt;m&gt;", "4 right", "1 | 2 4", "another token", "a note", "max abs 1e-07"):
        assert text in page
    xml = answer_junit(rows)
    assert 'tests="5" failures="1" errors="1"' in xml and "\x00" not in xml and "it raised RuntimeError" in xml
