"""Shell completion: what the scripts of bash, zsh and fish ask, and what they get."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.command_line import mindgap

#: Completes, and prints which modules of frameworks were imported.
WATCHED = (
    "import atexit, sys; from mindgap.cli import main; "
    "atexit.register(lambda: print(sorted({'torch', 'onnx', 'onnxruntime', 'pyarrow', 'altair'} & set(sys.modules)))); "
    "sys.exit(main([]))"
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "environments" / "ort128"
    folder.mkdir(parents=True)
    return tmp_path


def request(home: Path, shell: str, *words: str) -> dict[str, str]:
    """Returns the variables by which a shell requests the candidates for the last word."""
    variables = {"_MINDGAP_COMPLETE": f"complete_{shell}", "MINDGAP_HOME": str(home)}
    if shell == "bash":
        return variables | {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    return variables | {"_TYPER_COMPLETE_ARGS": " ".join(words), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}


def completed(home: Path, shell: str, *words: str) -> list[str]:
    """Returns the candidates for the last word, as `shell` reads them."""
    ran = mindgap(cwd=home, **request(home, shell, *words))
    assert not ran.err, ran.err
    lines = ran.out.splitlines()
    if shell == "zsh":
        return [line.split('"')[1] for line in lines if '"' in line]
    return [line.split("\t")[0] for line in lines if line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_and_options(home: Path, shell: str) -> None:
    names = completed(home, shell, "mindgap", "")
    assert {"diff", "env", "platforms", "coverage", "campaign", "study"} <= set(names)
    assert completed(home, shell, "mindgap", "di") == ["diff"]
    assert completed(home, shell, "mindgap", "diff", "--ba") == ["--backward", "--baseline"]
    assert "create" in completed(home, shell, "mindgap", "env", "")


@pytest.mark.parametrize("words", [("diff", "-p"), ("diff", "--reference"), ("reduce", "m.py:f", "-p"), ("coverage",)])
def test_platforms(home: Path, words: tuple[str, ...]) -> None:
    assert completed(home, "zsh", "mindgap", *words, "openv") == ["openvino/cpu", "openvino/gpu", "openvino/npu"]


def test_sources(home: Path) -> None:
    assert completed(home, "bash", "mindgap", "diff", "tim") == ["timm:"]
    assert completed(home, "bash", "mindgap", "diff", "-p", "cpu/jit", "hu") == ["hub:"]
    assert completed(home, "bash", "mindgap", "diff", "model.p") == []


@pytest.mark.parametrize("words", [("env", "remove"), ("diff", "--capture-env"), ("upgrade", "m.py:f", "--from")])
def test_environments(home: Path, words: tuple[str, ...]) -> None:
    assert completed(home, "fish", "mindgap", *words, "") == ["ort128"]


def test_an_environment_of_a_platform(home: Path) -> None:
    words = ("mindgap", "diff", "-p", "onnxruntime/cpu@env=o")
    assert completed(home, "zsh", *words) == ["onnxruntime/cpu@env=ort128"]
    assert completed(home, "zsh", "mindgap", "diff", "-p", "onnxruntime/cpu@") == ["onnxruntime/cpu@env="]


def test_bash_gets_what_follows_the_last_place_where_it_splits_words(home: Path) -> None:
    words = ("mindgap", "diff", "-p", "onnxruntime/cpu", "@", "env", "=")
    assert completed(home, "bash", *words) == ["ort128"]
    assert completed(home, "bash", *words, "or") == ["ort128"]
    for last in (("@",), ("@en",)):
        assert completed(home, "bash", "mindgap", "diff", "-p", "onnxruntime/cpu", *last) == ["@env="]
    assert completed(home, "bash", "mindgap", "diff", "timm", ":", "x", "-p", "cpu/ji") == ["cpu/jit"]
    assert completed(home, "bash", "mindgap", "diff", "--reference", "=", "cpu/ji") == ["cpu/jit"]


@pytest.mark.parametrize("words", [("",), ("diff", "-p", ""), ("diff", "t"), ("diff", "--"), ("env", "remove", "")])
def test_it_imports_no_framework(home: Path, words: tuple[str, ...]) -> None:
    variables = {**os.environ, **request(home, "bash", "mindgap", *words)}
    done = subprocess.run(
        [sys.executable, "-c", WATCHED], env=variables, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert not done.stderr, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def typed(shell: str, home: Path, keys: bytes, expected: bytes) -> bytes:
    """Types `keys` in an interactive shell, and returns what its terminal shows, to `expected` or for 30 seconds."""
    (home / ".local/share/fish/generated_completions").mkdir(
        parents=True
    )  # fish reads all manual pages where it is missing
    variables = {
        **os.environ,
        "HOME": str(home),
        "MINDGAP_HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TERM": "xterm",
        "fish_greeting": "READY ",
    }
    for name in (".bashrc", ".zshrc"):
        (home / name).write_text("PS1='READY '\n")
    subprocess.run([shell, "-c", "mindgap --install-completion; true"], env=variables, check=True)
    process, terminal = pty.fork()
    if not process:
        os.execvpe(shell, [shell, "-i"], variables)

    def shown(until: bytes, limit_s: float) -> bytes:
        text, end = b"", time.monotonic() + limit_s
        while until not in text and (left := end - time.monotonic()) > 0:
            if select.select([terminal], [], [], left)[0]:
                text += os.read(terminal, 4096)
        return text

    try:
        shown(b"READY", 30)
        os.write(terminal, keys)
        return shown(expected, 30)
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_first_tab_in_an_interactive_shell(home: Path, shell: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    assert b"cpu/jit" in typed(shell, home, b"mindgap diff -p cpu/ji\t", b"cpu/jit")
