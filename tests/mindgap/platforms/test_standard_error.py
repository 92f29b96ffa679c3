"""What native code prints on standard error is kept, and passed on at once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mindgap.platforms.standard_error import kept_standard_error

CRASH = """
import os
from mindgap.platforms.standard_error import kept_standard_error
with kept_standard_error():
    os.write(2, b"LLVM ERROR: last words\\n")
    import time; time.sleep(0.2)
    os.abort()
"""


def test_prints_of_native_code_and_children_are_kept_and_passed_on(capfd: pytest.CaptureFixture[str]):
    with kept_standard_error() as printed:
        os.write(2, b"native ")
        subprocess.run(["sh", "-c", "printf child >&2"], check=True)
    os.write(2, b" after")
    assert printed.text == "native child"
    assert capfd.readouterr().err == "native child after"


def test_an_error_leaves_standard_error_as_it_was(capfd: pytest.CaptureFixture[str]):
    with pytest.raises(ValueError), kept_standard_error():
        raise ValueError
    os.write(2, b"here")
    assert capfd.readouterr().err == "here"


def test_the_last_words_of_a_crash_are_not_lost():
    found = subprocess.run([sys.executable, "-c", CRASH], stderr=subprocess.PIPE, text=True, check=False)
    assert found.returncode < 0 and "LLVM ERROR: last words" in found.stderr
