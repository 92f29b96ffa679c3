"""What a user's program raises is the user's: status 2, the line and PyTorch's words, and the other programs run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mindgap as product
from cli import mistakes
from cli.command_line import mindgap
from mindgap.graph import MindgapError

_FILE = Path(mistakes.__file__)


def test_each_mistake_is_refused_with_its_words_and_the_right_program_is_compared(tmp_path: Path) -> None:
    names = [*mistakes.SAYS]
    half = len(names) // 2
    sources = [f"{_FILE}:{name}" for name in [*names[:half], "right", *names[half:]]]
    ran = mindgap("diff", *sources, "-p", "cpu/jit", cwd=tmp_path, own_path=True)
    refused = re.findall(r"refused: \S*mistakes(?:\.py)?:(\w+): (.*)", ran.err)
    assert ran.status == 2, ran.err[-3000:]
    assert "Traceback" not in ran.err and "mindgap failed" not in ran.out + ran.err
    assert ran.out.startswith("mistakes:right\n  cpu/jit  identical\n\n1 model × 1 platform"), ran.out
    wrong = [(name, words) for name, words in refused if not re.search(mistakes.SAYS[name], words)]
    assert not wrong
    assert {name for name, _ in refused} == {*names}


def test_an_exception_reaches_the_caller_of_the_api_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = ["view", "key", "bad_text", "calls_sequential", "leaves"]
    with product.Session() as session:
        for name in wrong:
            program, args = getattr(mistakes, name)()
            words = mistakes.SAYS[name]
            with pytest.raises(MindgapError, match=words) as caught:
                session.diff(program, args, platforms=["cpu/jit"])
            assert not isinstance(caught.value.__cause__, MindgapError)
        program, args = mistakes.right()
        assert session.diff(program, args, platforms=["cpu/jit"]).rows[0].verdict == "identical"
