"""What is kept of a worker's last output."""

from __future__ import annotations

from mindgap.run.message_cleaning import telling_lines

#: Printed by a worker that OpenVINO 2026.4.1 ended, shortened; and a warning that may say why.
PRINTED = """\
/opt/python/lib/python3.11/copyreg.py:105: FutureWarning: `isinstance(treespec, LeafSpec)` is deprecated, use something
  return cls.__new__(cls, *args)
/opt/venv/lib/python3.11/site-packages/torch/cuda.py:7: UserWarning: the driver is too old
  warn(text)
Fatal Python error: Floating point exception

Stack (most recent call first):
  File "/opt/venv/lib/python3.11/site-packages/openvino/_ov_api.py", line 646 in compile_model
  File "/home/me/.cache/mindgap/environments/ov/venv/lib/python3.11/site-packages/openvino/core.py", line 7 in call
  File "/opt/venv/lib/python3.11/site-packages/mindgap/run/local.py", line 220 in _load
  File "/home/me/mindgap/src/mindgap/platforms/openvino/backend.py", line 124 in _load_pytorch
  File "<frozen runpy>", line 88 in _run_code

Extension modules: numpy._core._multiarray_umath, torch._C (total: 2)"""
TOLD = """\
/opt/venv/lib/python3.11/site-packages/torch/cuda.py:7: UserWarning: the driver is too old
  warn(text)
Fatal Python error: Floating point exception

Stack (most recent call first):
  File "openvino/_ov_api.py", line 646 in compile_model
  File "openvino/core.py", line 7 in call
"""


def test_deprecations_and_mindgaps_own_frames_are_left_out() -> None:
    assert "\n".join(telling_lines(PRINTED.splitlines())) == TOLD


def test_a_traceback_stays_whole() -> None:
    traceback = [
        "Traceback (most recent call last):",
        '  File "/home/me/mindgap/src/mindgap/run/worker.py", line 54, in main',
        "    serve()",
        "ModuleNotFoundError: No module named 'openvino'",
    ]
    assert telling_lines(traceback) == traceback


def test_a_deprecation_before_a_frame_takes_only_its_own_line() -> None:
    lines = ["a.py:1: DeprecationWarning: old", '  File "openvino/x.py", line 3 in run']
    assert telling_lines(lines) == lines[1:]
