"""What `import mindgap` does, and what it leaves alone."""

from __future__ import annotations

import subprocess
import sys

import pytest


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_it_imports_no_framework() -> None:
    code = "import sys, mindgap.run.pool; print([m for m in ('torch', 'onnxruntime', 'openvino') if m in sys.modules])"
    assert python(code) == "[]"


@pytest.mark.parametrize("name", ["diff", "capture"])
def test_the_functions_of_the_package_can_be_called(name: str) -> None:
    code = f"import mindgap, inspect; print(inspect.isfunction(mindgap.{name}), mindgap.{name}.__name__)"
    assert python(code) == f"True {name}"


def test_every_public_name_is_there() -> None:
    assert python("import mindgap; print(all(getattr(mindgap, name) for name in mindgap.__all__))") == "True"


def test_the_command_line_starts_without_a_framework() -> None:
    code = "import sys, mindgap.cli.app, mindgap.cli.diff; print(sorted({'torch', 'onnx'} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_a_diff_without_a_page_imports_no_framework_to_write_one():
    code = (
        "import sys; from mindgap.cli.diff import write_pages; write_pages(None, None, None); "
        "print(sorted({'torch', 'jinja2', 'altair'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
