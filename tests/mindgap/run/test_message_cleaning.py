"""What is kept of a worker's last output."""

from __future__ import annotations

import pytest

from mindgap.run.message_cleaning import shortened_paths, telling_lines
from mindgap.run.source_files import PACKAGE
from mindgap.source_worker.client import users_line

#: Printed by a worker that OpenVINO 2026.4.1 ended, shortened; and a warning that may say why.
PRINTED = f"""\
/opt/python/lib/python3.11/copyreg.py:105: FutureWarning: `isinstance(treespec, LeafSpec)` is deprecated, use something
  return cls.__new__(cls, *args)
/opt/venv/lib/python3.11/site-packages/torch/cuda.py:7: UserWarning: the driver is too old
  warn(text)
Fatal Python error: Floating point exception

Stack (most recent call first):
  File "/opt/venv/lib/python3.11/site-packages/openvino/_ov_api.py", line 646 in compile_model
  File "/home/me/.cache/mindgap/environments/ov/venv/lib/python3.11/site-packages/openvino/core.py", line 7 in call
  File "/home/me/mindgap/src/mindgap/net.py", line 12 in forward
  File "{PACKAGE}/run/local.py", line 220 in _load
  File "{PACKAGE}/platforms/openvino/backend.py", line 124 in _load_pytorch
  File "<frozen runpy>", line 88 in _run_code

Extension modules: numpy._core._multiarray_umath, torch._C (total: 2)"""
TOLD = """\
torch/cuda.py:7: UserWarning: the driver is too old
  warn(text)
Fatal Python error: Floating point exception

Stack (most recent call first):
  File "openvino/_ov_api.py", line 646 in compile_model
  File "openvino/core.py", line 7 in call
  File "/home/me/mindgap/src/mindgap/net.py", line 12 in forward
"""


def test_deprecations_and_mindgaps_own_frames_are_left_out() -> None:
    assert shortened_paths("\n".join(telling_lines(PRINTED.splitlines()))) == TOLD


def test_a_traceback_stays_whole() -> None:
    traceback = [
        "Traceback (most recent call last):",
        '  File "/home/me/mindgap/src/mindgap/run/worker.py", line 54, in main',
        "    serve()",
        "ModuleNotFoundError: No module named 'openvino'",
    ]
    assert telling_lines(traceback) == traceback


def test_the_line_of_the_user_is_none_of_a_package() -> None:
    stack = [
        '  File "/opt/venv/lib/python3.11/site-packages/torch/nn/functional.py", line 7 in relu',
        '  File "/home/me/models.py", line 11 in crashes',
    ]
    assert users_line("\n".join(telling_lines(stack))) == "models.py:11"


def test_the_frames_of_a_host_are_left_out_by_its_own_folder() -> None:
    lines = [
        '  File "/opt/m\\xfcx/mindgap/run/local.py", line 220 in _load',
        '  File "/home/mindgap/net.py", line 3 in f',
    ]
    assert telling_lines(lines, "/opt/m\u00fcx/mindgap") == lines[1:]
    assert telling_lines(lines) == lines


def test_the_users_file_has_its_name_in_the_stack_of_a_dead_process() -> None:
    assert users_line('  File "/home/m\\xfc/mindgap/\\xfcbung.py", line 11 in f') == "\u00fcbung.py:11"


def test_a_deprecation_before_a_frame_takes_only_its_own_line() -> None:
    lines = ["a.py:1: DeprecationWarning: old", '  File "openvino/x.py", line 3 in run']
    assert telling_lines(lines) == lines[1:]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            'Original traceback: File "/home/me/.cache/mindgap/environments/tosa/venv/lib/python3.11/site-packages/'
            'executorch/backends/arm/_passes/rewrite_pad.py", line 3',
            'Original traceback: File "executorch/backends/arm/_passes/rewrite_pad.py", line 3',
        ),
        (
            f"tracing the function run at {PACKAGE}/platforms/jax/replay.py:37 for jit",
            "tracing the function run at mindgap/platforms/jax/replay.py:37 for jit",
        ),
        (
            "(from /opt/v/site-packages/a.py and /opt/v/dist-packages/b/c.py:3:1)",
            "(from a.py and b/c.py:3:1)",
        ),
        (
            'File "/home/m\u00fc/my project/.venv/lib/python3.11/site-packages/torch/x.py", line 3, and "/x/y"',
            'File "torch/x.py", line 3, and "/x/y"',
        ),
        ("/srv/mindgap/net.py, /srv/mindgap/src/mindgap/net.py", None),
        ("/caches/mg/tensors/ab is damaged", "$MINDGAP_HOME/tensors/ab is damaged"),
        ("net.py is '/home/me/work/net.py'", "net.py is '~/work/net.py'"),
        ("/home/meagre/net.py, x/home/me/y, /home/me, https://a.b/home/me/x", None),
        ("relative site-packages/a.py, mindgap/run.py, /work/mindgap/README", None),
    ],
)
def test_paths_in_messages_say_nothing_of_the_machine(text: str, kept: str | None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("MINDGAP_HOME", "/caches/mg")
    assert shortened_paths(text) == (text if kept is None else kept)


def test_the_root_is_nobodys_home(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/")
    monkeypatch.setenv("MINDGAP_HOME", "/")
    assert shortened_paths("/bin/x") == "/bin/x"
