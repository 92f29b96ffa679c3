"""Writes a script that shows a node of a model file on a platform: the node's file, its operands, what is right."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mindgap.own_path.runners import program_runner_of
from mindgap.own_path.runs import FileNodes
from mindgap.platforms.environments import find as find_environment
from mindgap.platforms.name import PlatformName
from mindgap.platforms.registry import find

#: Seconds for one run of a script.
_LIMIT_S: Final = 120.0
_SCRIPT: Final = '''"""{title}

Needs {needs}. Ends with status 1 where the platform is wrong. {command}
"""

import sys
from pathlib import Path

import numpy as np
import torch
{imports}

HERE = Path(__file__).resolve().parent
FILE = str(HERE / "{name}.onnx")
PROPERTIES = {properties!r}
OPERANDS = dict(np.load(HERE / "{name}.npz"))
RIGHT = dict(np.load(HERE / "{name}.right.npz"))  # by ONNX's reference evaluator, where it has the operator


class Inputs:
    """Gives the file's inputs their operands by name."""

    def matched(self, inputs, tensors):
        return [(name, torch.as_tensor(OPERANDS[name])) for name, _ in inputs]


{run}

wrong = False
for (name, right), got in zip(RIGHT.items(), run(Inputs(), lambda: ())):
    got = got.numpy()
    same_form = got.shape == right.shape and got.dtype == right.dtype
    off = np.abs(got.astype(float) - right.astype(float)) if same_form else np.array(np.inf)
    far = ~(off <= 1e-3 * np.abs(right.astype(float)) + 1e-4 * np.abs(right.astype(float)).max(initial=0.0))
    wrong = wrong or bool(far.any())
    print(f"{{name}}: {{int(far.sum())}} of {{right.size}} elements are wrong, by {{off.max(initial=0.0):.3g}} at most")
sys.exit(int(wrong))
'''


@dataclass(frozen=True, slots=True)
class FileScript:
    """A script. `verified`: two runs of it ended with status 1. `said`: what the last one printed."""

    path: Path
    verified: bool
    said: str


def write_file_script(folder: Path, found: FileNodes, platform: PlatformName) -> FileScript:
    """Writes the script of the first node, whose file and operands are in `folder`, and runs it twice."""
    node, file = found.nodes[0], folder / f"{found.file}.onnx"
    runner = program_runner_of(find(platform)[0], platform, file)
    assert runner is not None, "it ran the file"
    where = platform.environment
    python = find_environment(where).python if where else sys.executable
    size = "fails" if node.apart is None else f"is {node.apart:.2g} of the largest magnitude off"
    path = folder.resolve() / f"{found.file}_{str(platform).translate(str.maketrans('/@=,', '____'))}.py"
    text = _SCRIPT.format(
        title=f"{node.op} (node {node.name}) on {platform} {size}",
        needs=", ".join(("torch", "numpy", *runner.packages)),
        command=f"Run it in environment {where}: {python}" if where else "", name=found.file,
        imports="\n".join(runner.imports), properties=dict(runner.properties),
        run=runner.run.replace(repr(str(file.resolve())), "FILE").strip(),
    )  # fmt: skip
    path.write_text(text, encoding="utf-8")
    runs = [_run(python, path) for _ in range(2)]
    return FileScript(path, all(status == 1 for status, _ in runs), runs[-1][1])


def _run(python: str, path: Path) -> tuple[int, str]:
    try:
        done = subprocess.run(
            [python, str(path)], capture_output=True, text=True, timeout=_LIMIT_S, check=False, cwd=path.parent
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return -1, f"it did not end in {_LIMIT_S:.0f} s"
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return done.returncode, lines[-1] if lines else ""
