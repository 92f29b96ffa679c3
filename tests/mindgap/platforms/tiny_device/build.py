"""Compiles the device `tiny` and lays its package and the platform's package out as an installer would."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent
LIBRARY = "libtiny_accelerator.so"


def library() -> Path:
    """The compiled device. Kept in the machine's folder for temporary files, by source and version of PyTorch."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source = HERE / "tiny_accelerator.cpp"
    key = hashlib.sha256(source.read_bytes() + f"{torch.__version__} {compiler}".encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"mindgap-tiny-{os.getuid()}-{key}"
    folder.mkdir(exist_ok=True)
    built = folder / LIBRARY
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # workers of pytest-xdist build it once
        if not built.exists():
            home = Path(torch.__file__).parent
            command = [
                compiler, "-O0", "-std=c++20", "-fPIC", "-shared", f"-I{home / 'include'}", str(source),
                "-o", str(folder / "new.so"), f"-L{home / 'lib'}", "-ltorch_cpu", "-lc10",
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[-4000:]
            (folder / "new.so").rename(built)
    return built


def install(target: Path) -> None:
    """Both packages in `target`, which then belongs on the path of Python's modules."""
    shutil.copy(library(), target)
    shutil.copy(HERE / "tiny_accelerator.py", target)
    shutil.copy(HERE / "mindgap_tiny.py", target)
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["mindgap.platforms"]
    for name, version, entries in (("tiny-accelerator", "1.2", {}), (project["name"], project["version"], points)):
        info = target / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = "".join(f"{key} = {value}\n" for key, value in entries.items())
        (info / "entry_points.txt").write_text(f"[mindgap.platforms]\n{lines}" if lines else "")
