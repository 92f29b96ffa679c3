"""The ways in which people run a comparison: from files and folders, packages, Python, pytest, loops, with Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import mindgap as api
from cli.command_line import mindgap

NET = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x):
        return torch.relu(self.linear(x))
"""
HERE = "import torch\n\n\ndef make():\n    from net import Net\n    return Net().eval(), (torch.ones(2, 6),)\n"
PLATFORMS = ("-p", "cpu/jit", "-p", "onnxruntime/cpu")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a net, a file that imports it inside its function, and a package."""
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "lazy.py").write_text(HERE)
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "__init__.py").write_text("")
    (tmp_path / "zoo" / "net.py").write_text(NET)
    (tmp_path / "zoo" / "models.py").write_text(HERE.replace("from net", "from .net"))
    return tmp_path


def calm(report: api.Report) -> bool:
    return all(row.verdict in {"identical", "rounding"} for row in report.rows) and bool(report.rows)


def test_from_a_file_a_package_and_another_folder_in_one_command(project: Path) -> None:
    elsewhere = project / "elsewhere"
    elsewhere.mkdir()
    ran = mindgap("diff", "../lazy.py:make", "-p", "cpu/jit", cwd=elsewhere, own_path=True)
    assert ran.status == 0 and "identical" in ran.out, ran.err
    ran = mindgap("diff", "lazy.py:make", "zoo.models:make", "-p", "cpu/jit", cwd=project, own_path=True)
    assert ran.status == 0 and ran.out.count("identical") >= 2, ran.err + ran.out


@pytest.mark.nightly
def test_from_python_in_a_loop_and_twice_in_a_session() -> None:
    module, args = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()).eval(), (torch.ones(2, 4),)
    for width in (4, 5):  # as cells of a notebook that are run again
        made = torch.nn.Linear(width, 3).eval()
        assert calm(api.diff(made, (torch.ones(1, width),), platforms=["cpu/jit"]))
    with api.Session() as session:
        for _ in range(2):
            assert calm(session.diff(module, args, platforms=["cpu/jit", "onnxruntime/cpu"]))


@pytest.mark.nightly
def test_in_pytest(project: Path) -> None:
    (project / "test_net.py").write_text(
        "import pytest, torch\nfrom net import Net\n\n\n"
        '@pytest.mark.mindgap(platforms=["cpu/jit"])\ndef test_net(mindgap_diff):\n'
        "    mindgap_diff(Net().eval(), (torch.ones(2, 6),))\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_net.py"], cwd=project,
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(project), "MINDGAP_HOME": str(project / "home")},
    )  # fmt: skip
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.nightly
def test_a_session_is_not_spoiled_by_a_program_that_raises() -> None:
    class Mapped(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.vmap(lambda row: row * torch.rand(()))(x)

    with api.Session() as session:
        with pytest.raises(api.MindgapError):
            session.diff(Mapped(), (torch.ones(2, 3),), platforms=["cpu/jit"])
        assert calm(session.diff(torch.nn.Linear(3, 2).eval(), (torch.ones(2, 3),), platforms=["cpu/jit"]))


@pytest.mark.nightly
def test_ctrl_c_ends_a_command_with_its_status(project: Path) -> None:
    (project / "slow.py").write_text(
        "import time, torch\n\n\n"
        "def make():\n    time.sleep(60)\n    return torch.nn.Linear(2, 2), (torch.ones(1, 2),)\n"
    )
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "mindgap"), "diff", "slow.py:make", *PLATFORMS], cwd=project, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        env={**os.environ, "MINDGAP_HOME": str(project / "home")},
    )  # fmt: skip
    time.sleep(8)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err, err
