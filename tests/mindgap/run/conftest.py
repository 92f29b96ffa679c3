"""Workers that find the misbehaving platforms of this folder."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mindgap.run.pool import WorkerPool

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
ZOO = "misbehaving:BACKEND"


@pytest.fixture(autouse=True)
def misbehaving_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def calm_pool() -> Iterator[WorkerPool]:
    """One worker for all the tests that do not hurt theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
        with WorkerPool([ZOO]) as pool:
            yield pool


@pytest.fixture
def make_pool() -> Iterator[Callable[..., WorkerPool]]:
    """Pools that are closed at the end of the test; one platform of `misbehaving.py` unless told."""
    pools: list[WorkerPool] = []

    def make(*platforms: str, **settings: Any) -> WorkerPool:
        pools.append(WorkerPool(platforms or (ZOO,), **settings))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


@pytest.fixture
def write_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes the command of the host `edge`, by default one that works, with a home of its own."""
    monkeypatch.chdir(tmp_path)

    def write(command: str = "", **more: object) -> None:
        command = command or f"env MINDGAP_HOME={tmp_path}/there {sys.executable} -m mindgap worker"
        lines = [f"command = {json.dumps(command)}", *(f"{key} = {value}" for key, value in more.items())]
        (tmp_path / "mindgap.toml").write_text("\n".join(["[hosts.edge]", *lines, ""]))

    write()
    return write
