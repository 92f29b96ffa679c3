"""What `import mindgap` does, and what it leaves alone."""

from __future__ import annotations

import subprocess
import sys


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_it_imports_no_framework() -> None:
    code = "import sys, mindgap.run.pool; print([m for m in ('torch', 'onnxruntime', 'openvino') if m in sys.modules])"
    assert python(code) == "[]"


def test_functions_stay_functions_whatever_was_imported_first() -> None:
    code = "import mindgap.diff.rows, mindgap.capture; print(callable(mindgap.diff), callable(mindgap.capture))"
    assert python(code) == "True True"


def test_functions_stay_functions_when_they_are_used_first() -> None:
    code = "import mindgap; mindgap.diff; mindgap.capture; import mindgap.diff.rows; print(callable(mindgap.diff))"
    assert python(code) == "True"


def test_every_public_name_is_there() -> None:
    assert python("import mindgap; print(all(getattr(mindgap, name) for name in mindgap.__all__))") == "True"
