"""What a user's program raises is the user's: status 2, the line and PyTorch's words, and the other programs run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
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


def test_a_refusal_names_the_source_once(tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text("def make():\n    raise ValueError('no')\n")
    for command in ("diff", "reduce", "metamorphic"):
        ran = mindgap(command, "absent.onnx", "raises.py:make", "-p", "cpu/jit", cwd=tmp_path)
        lines = [line for line in ran.err.splitlines() if "refused" in line]
        assert ran.status == 2 and lines == [
            "mindgap: refused: absent.onnx: no such file",
            "mindgap: refused: raises.py:make: it raised ValueError: no (line 2)",
        ], (command, ran.err)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_each_command_refuses_a_mistake_in_its_words(tmp_path: Path) -> None:
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    np.savez(tmp_path / "data.npz", images=np.ones((6, 4), np.float32), labels=np.arange(6) % 3)
    right, jit = f"{_FILE}:right", ("-p", "cpu/jit")
    wrong = f"{_FILE}:view"
    commands = [
        ("trace", wrong, *jit), ("reduce", wrong, *jit, "--out", "out"), ("metamorphic", wrong, *jit),
        ("invariance", wrong, *jit), ("study", "task", wrong, "data.npz", *jit),
        ("diff", right, *jit, "--reference-model", wrong), ("capture", wrong, "-o", "out.mindgap"),
        ("trace", f"{_FILE}:none", *jit), ("trace", "nowhere.py:make", *jit), ("trace", f"{_FILE}:nowhere", *jit),
        ("diff", right, *jit, "--inputs", "bad.npz"), ("study", "task", right, "bad.npz", *jit),
        ("coverage", "nowhere/cpu"), ("portability", "nowhere", *jit),
    ]  # fmt: skip
    words = r"itself raises RuntimeError: shape '\[3, 5\]' is invalid .*\(mistakes.py:\d+\)|is a NoneType; return|"
    words += r"it is no \.npz archive|no such file|it has no function 'nowhere'|no platform 'nowhere/cpu'"
    for command in commands:
        ran = mindgap(*command, cwd=tmp_path, own_path=True)
        assert ran.status == 2 and re.search(words, ran.err + ran.out), (command, ran)
        assert "Traceback" not in ran.err and "mindgap failed" not in ran.out + ran.err, (command, ran.err)
