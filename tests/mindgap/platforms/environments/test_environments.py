"""Environments: made, adopted, checked, removed; what is wrong with one is a single line that says what to do."""

from __future__ import annotations

import json
import platform
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from mindgap.platforms.environments import Environment, EnvironmentProblem, environment, environments, find
from mindgap.platforms.environments.environment import BASE_PACKAGES, unfinished
from mindgap.platforms.environments.installation import adopt, create, remove

GOOD = {"python": "3.12.1", "implementation": "CPython", "machine": platform.machine(), "prefix": "/", "missing": []}


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))


def interpreter(folder: Path, **facts: Any) -> str:
    """A program that answers as an interpreter would."""
    return program(folder, f"echo '{json.dumps({**GOOD, **facts})}'")


def program(folder: Path, line: str) -> str:
    path = folder / f"python{len(list(folder.iterdir()))}"
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def quiet(line: str) -> None:
    assert line


def test_an_adopted_environment_stays_as_it_is() -> None:
    made = adopt("here", sys.executable, quiet)
    assert made == find("here") == environments()[0]
    assert made.python == sys.executable and not made.created
    facts = made.check()
    assert facts.python == ".".join(map(str, sys.version_info[:3])) and not facts.missing
    folder = remove("here")
    assert not folder.exists() and Path(sys.executable).exists()
    assert environments() == []


def test_a_layered_environment_has_the_packages_of_mindgap_behind_its_own() -> None:
    made = create("layer", [], None, isolated=False, say=quiet)
    assert made.layered and made.check().prefix == str(made.folder / "venv")
    (packages,) = (made.folder / "venv").rglob(BASE_PACKAGES)
    packages.write_text("/nowhere/site-packages\n")
    environment._answer.cache_clear()
    with pytest.raises(EnvironmentProblem, match="takes packages from /nowhere/site-packages, which is not there any"):
        made.check()


def test_a_name_that_is_taken(tmp_path: Path) -> None:
    adopt("one", sys.executable, quiet)
    with pytest.raises(EnvironmentProblem, match=r"environment one exists \(.*mindgap env remove one"):
        create("one", ["xxhash"], None, isolated=False, say=quiet)
    with pytest.raises(EnvironmentProblem, match="environment one exists"):
        adopt("one", interpreter(tmp_path), quiet)


@pytest.mark.parametrize("name", ["", "../up", "a b", "a,b", "-a", "x" * 65])
def test_a_name_that_is_none(name: str) -> None:
    with pytest.raises(EnvironmentProblem, match="cannot name an environment"):
        create(name, ["xxhash"], None, isolated=False, say=quiet)


def test_an_unknown_name_gets_the_nearest() -> None:
    adopt("torch214", sys.executable, quiet)
    with pytest.raises(EnvironmentProblem, match=r"no environment torch241 .did you mean torch214"):
        find("torch241")


def test_a_requirement_that_cannot_be_installed_leaves_nothing_behind() -> None:
    with pytest.raises(EnvironmentProblem, match="nothing-of-that-name==1 cannot be installed: ERROR: "):
        create("bad", ["--no-index", "nothing-of-that-name==1"], None, isolated=False, say=quiet)
    assert environments() == [] and unfinished() == []


def test_a_creation_that_did_not_end_is_named_and_made_again() -> None:
    folder = Environment("half", sys.executable).folder
    (folder / "venv").mkdir(parents=True)
    assert unfinished() == ["half"]
    with pytest.raises(EnvironmentProblem, match="environment half is not complete"):
        find("half")
    assert adopt("half", sys.executable, quiet) == find("half")


def test_a_record_that_cannot_be_read() -> None:
    made = adopt("one", sys.executable, quiet)
    (made.folder / "environment.json").write_text("{}")
    with pytest.raises(EnvironmentProblem, match=r"environment.json is no record .* mindgap env remove one"):
        find("one")
    remove("one")
    assert environments() == []


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"python": "3.9.18"}, "its Python is 3.9.18; workers need 3.10"),
        ({"implementation": "PyPy"}, "its Python is PyPy, not CPython"),
        ({"machine": "mips64"}, "its Python is built for mips64, this machine is "),
    ],
)
def test_an_interpreter_on_which_no_worker_runs(tmp_path: Path, facts: dict[str, Any], said: str) -> None:
    with pytest.raises(EnvironmentProblem, match=said):
        adopt("other", interpreter(tmp_path, **facts), quiet)
    assert environments() == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("echo no such module >&2; exit 7", r"no Python that works \(status 7\): no such module"),
        ("echo hello", r"no Python that works \(status 0\): hello"),
        ("exit 3", r"no Python that works \(status 3\): nothing"),
    ],
)
def test_a_program_that_is_no_python(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(EnvironmentProblem, match=said):
        adopt("other", program(tmp_path, line), quiet)


def test_two_processes_do_not_make_one_environment() -> None:
    with ThreadPoolExecutor(2) as threads:
        tries = [threads.submit(create, "one", [], None, isolated=False, say=quiet) for _ in range(2)]
        errors = [str(each.exception()) for each in tries if each.exception()]
    assert find("one").check() and len(errors) == 1
    assert "is being made by another process" in errors[0] or "environment one exists" in errors[0]


def test_a_damaged_environment_is_not_replaced() -> None:
    made = adopt("one", sys.executable, quiet)
    (made.folder / "environment.json").write_text("{}")
    with pytest.raises(EnvironmentProblem, match="is no record of an environment"):
        adopt("one", sys.executable, quiet)
    assert made.folder.exists()


def test_what_a_program_prints_need_not_be_text(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="no Python that works"):
        adopt("other", program(tmp_path, r"printf '\377\376'"), quiet)


def test_a_needed_package_that_cannot_be_imported_is_missing(tmp_path: Path) -> None:
    (tmp_path / "broken" / "xxhash").mkdir(parents=True)
    (tmp_path / "broken" / "xxhash" / "__init__.py").write_text("raise ImportError('no such symbol')")
    python = tmp_path / "python"
    folder = tmp_path / "broken"
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); sys.argv = sys.argv[1:]; import runpy; "
    code += "sys.path.insert(0, ''); runpy.run_path(sys.argv[0], run_name='__main__')"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    python.chmod(0o755)
    made = Environment("poor", str(python))
    made.folder.mkdir(parents=True)
    with pytest.raises(EnvironmentProblem, match="environment poor lacks xxhash"):
        made.check()


def test_packages_of_the_environment_come_before_pythonpath(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "xxhash").mkdir()
    (tmp_path / "xxhash" / "__init__.py").write_text("raise ImportError('of another environment')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert not adopt("here", sys.executable, quiet).check().missing


def test_an_interpreter_that_has_gone(tmp_path: Path) -> None:
    made = Environment("gone", str(tmp_path / "bin" / "python"))
    made.folder.mkdir(parents=True)
    made.save()
    with pytest.raises(EnvironmentProblem, match=r"environment gone: its interpreter .*python is not there"):
        find("gone").check()


def test_the_versions_of_packages() -> None:
    found = adopt("here", sys.executable, quiet).versions("numpy", "no-such-package")
    assert found == {"numpy": version("numpy")}


def test_a_program_that_answers_something_else(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"no Python that works: it answers \{'a': 1\}"):
        adopt("other", program(tmp_path, """echo '{"a": 1}'"""), quiet)


def test_a_package_that_workers_need_and_that_has_gone(tmp_path: Path) -> None:
    made = Environment("poor", interpreter(tmp_path, missing=["xxhash"]), ("onnxruntime==1.28.0",), created=True)
    remedy = "mindgap env remove poor, then mindgap env create poor 'onnxruntime==1.28.0'"
    with pytest.raises(EnvironmentProblem, match=f"environment poor lacks xxhash, which workers need: {remedy}"):
        made.check()


def test_to_install_leaves_setuptools_as_it_is() -> None:
    """Once the module pip is looked for, setuptools is no longer imported in this process: its distutils is gone."""
    program = "from mindgap.platforms.environments.installation import has_pip; assert has_pip(); import setuptools"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_runs_in_an_environment_imports_no_package_that_it_need_not_have() -> None:
    """The modules of a worker, of one that captures and of one that runs a platform's own path."""
    code = """
import importlib, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"psutil", "rich", "typer", "xdsl", "jinja2"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
for name in ("run.server", "run.worker", "source_worker.worker", "own_path.worker"):
    importlib.import_module("mindgap." + name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
