"""Installs a wheel or an sdist, and what it needs, into a fresh environment, and compares a model there.

    python tools/fresh_install.py dist/mindgap-0.2.0-py3-none-any.whl [--python PYTHON]... [--extras openvino]

Prints, for each interpreter: seconds, MiB, versions, and the first comparison. Status 1 where one of them fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples" / "my_model.py"
PLATFORMS = {"onnxruntime": "onnxruntime/cpu", "openvino": "openvino/cpu@precision=f32"}


def install(interpreter: str, file: Path, extras: list[str]) -> int:
    """Installs into a temporary environment, runs a comparison there, and returns its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        subprocess.run([interpreter, "-m", "venv", folder], check=True)
        python = f"{folder}/bin/python"
        wanted = f"{file}[{','.join(extras)}]" if extras else str(file)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-cache-dir", wanted], check=True)
        seconds = time.monotonic() - begin
        size = sum(each.stat().st_size for each in Path(folder).rglob("*") if each.is_file() and not each.is_symlink())
        print(f"{interpreter}: {seconds:.0f} s, {size >> 20} MiB", flush=True)
        environment = {**os.environ, "MINDGAP_HOME": f"{folder}/home"}
        subprocess.run([f"{folder}/bin/mindgap", "--version"], env=environment, check=True)
        platforms = ["cpu/jit", *(PLATFORMS[each] for each in extras if each in PLATFORMS)]
        begin = time.monotonic()
        command = [f"{folder}/bin/mindgap", "diff", f"{EXAMPLE}:make", *(f"--platform={each}" for each in platforms)]
        status = subprocess.run(command, env=environment, check=False).returncode
        print(f"first comparison: status {status}, {time.monotonic() - begin:.0f} s", flush=True)
        return status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--extras", default="")
    given = parser.parse_args()
    extras = [each for each in given.extras.split(",") if each]
    statuses = [install(each, given.file.resolve(), extras) for each in given.python or [sys.executable]]
    return int(any(statuses))


if __name__ == "__main__":
    sys.exit(main())
