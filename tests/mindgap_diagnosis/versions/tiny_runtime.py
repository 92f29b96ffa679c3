"""Six releases of a runtime on the disk, for a platform `tiny/runtime`: 1.3 cannot be installed, 1.4 is wrong."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

RELEASES = ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5")
_RIGHT = "import numpy\n\ndef relu(x):\n    return numpy.maximum(x, 0)\n"
_WRONG = "import numpy\n\ndef relu(x):\n    return numpy.maximum(x, 0.5)\n"
_BACKEND = """
import importlib.metadata
import importlib.util

import numpy as np

from mindgap.platforms.protocol import Availability, Unsupported


class Backend:
    options = {}
    packages = ("tinyruntime",)

    def probe(self):
        there = importlib.util.find_spec("tinyruntime") is not None
        if not there:
            return Availability(False, "tinyruntime is not installed")
        return Availability(True, versions={"tinyruntime": importlib.metadata.version("tinyruntime")})

    def environment(self, options):
        return {}

    def open(self, options):
        return Platform()


class Platform:
    def describe(self):
        return {}

    def load(self, graph, inputs):
        for node in graph.nodes:
            if node.op != "aten.relu.default":
                raise Unsupported(node.op, "not among the operators of this platform")

        def run(inputs):
            import tinyruntime

            values = list(inputs)
            for node in graph.nodes:
                values.append(np.asarray(tinyruntime.relu(values[node.args[0].index]), np.float32))
            return [values[number] for number in graph.outputs]

        return run


BACKEND = Backend()
"""
MODEL = """
import torch

def wrong():
    return torch.nn.ReLU(), (torch.tensor([-1.0, 0.25, 2.0, 0.1]),)

def calm():
    return torch.nn.ReLU(), (torch.tensor([1.0, 2.0, 4.0]),)

def two():
    return [wrong(), calm()]

def refused():
    raise RuntimeError("no weights here")
"""


def _wheel(folder: Path, name: str, version: str, module: str, needs: str = "") -> None:
    info = f"{name}-{version}.dist-info"
    requires = f"Requires-Dist: {needs}\n" if needs else ""
    files = {
        f"{name}.py": module,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{each},,\n" for each in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)


def install(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Writes the releases and the platform, and points pip and Python at them."""
    (folder / "wheels").mkdir()
    for release in RELEASES:
        needs = "no-package-of-this-name" if release == "1.3" else ""
        _wheel(folder / "wheels", "tinyruntime", release, _WRONG if release >= "1.4" else _RIGHT, needs)
    site = folder / "site"
    info = site / "tiny_runtime_platform-0.1.dist-info"
    info.mkdir(parents=True)
    (site / "tiny_runtime_platform.py").write_text(_BACKEND)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-runtime-platform\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[mindgap.platforms]\ntiny/runtime = tiny_runtime_platform:BACKEND\n")
    (folder / "model.py").write_text(MODEL)
    patch.setenv("PIP_NO_INDEX", "1")
    patch.setenv("PIP_FIND_LINKS", str(folder / "wheels"))
    path = os.environ.get("PYTHONPATH", "")
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(site), path])))
