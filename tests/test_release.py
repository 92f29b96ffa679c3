"""The wheel and the sdist: what they hold, what they declare, and that they run where nothing else is installed.

An environment here has links to the distributions that a release and its dependencies name, and no others.
"""

from __future__ import annotations

import csv
import email
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.message import Message
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import mindgap

ROOT = Path(__file__).parents[1]
ANNEXES = ("campaign", "diagnosis", "runtimes", "studies", "surveys", "zoo")
PACKAGES = ("mindgap", *(f"mindgap_{name}" for name in ANNEXES))
#: Of a source tree and no part of a wheel.
NOT_INSTALLED = re.compile(r"(^|/)(tests?|docs|benchmarks|examples|__pycache__|\..*)/|\.pyc$")
#: What README's first example needs.
RUNTIMES = "onnxruntime,openvino,html"


@dataclass(frozen=True)
class Release:
    """A wheel that is built from the sdist, the sdist, and a wheel that is built from the source tree."""

    wheel: Path
    sdist: Path
    direct: Path


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    folder = tmp_path_factory.mktemp("release")
    for kind, name in (([], "both"), (["--wheel"], "direct")):
        command = [sys.executable, "-m", "build", "--no-isolation", *kind, "-o", str(folder / name), str(ROOT)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (sdist,) = (folder / "both").glob("*.whl"), (folder / "both").glob("*.tar.gz")
    (direct,) = (folder / "direct").glob("*.whl")
    return Release(wheel, sdist, direct)


def record(wheel: Path) -> dict[str, str]:
    """Returns the digest of each file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/RECORD")]
        return {file: digest for file, digest, _ in csv.reader(archive.read(name).decode().splitlines())}


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def listed(*folders: str) -> set[str]:
    """Returns the files of the source tree, without what Python leaves behind. It needs no git."""
    paths = [
        path
        for folder in folders
        for path in ((ROOT / folder).rglob("*") if (ROOT / folder).is_dir() else [ROOT / folder])
    ]
    return {str(path.relative_to(ROOT)) for path in paths if path.is_file() and "__pycache__" not in path.parts}


def test_the_wheel_has_every_file_of_the_six_packages_and_no_other(release: Release) -> None:
    files = {name for name in record(release.wheel) if ".dist-info/" not in name}
    sources = {name.removeprefix("src/") for name in listed("src")}
    assert files == {name for name in sources if not name.endswith("/LICENSE.GraphNet")}
    assert not [name for name in files if NOT_INSTALLED.search(name)]
    assert {name.partition("/")[0] for name in files} == set(PACKAGES)
    assert {f"{package}/py.typed" for package in PACKAGES} <= files
    for suffix in (".j2", ".css", ".js", ".mjs", ".toml", ".npz", ".gz", ".graph", ".csv"):
        assert any(name.endswith(suffix) for name in files), suffix


def test_the_sdist_builds_the_wheel_of_the_tree(release: Release) -> None:
    assert record(release.wheel) == record(release.direct)


def test_the_sdist_has_sources_and_what_describes_them(release: Release) -> None:
    with tarfile.open(release.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    whole = listed("src", "examples", "CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "SECURITY.md")
    assert whole | {"PKG-INFO", "pyproject.toml"} <= names
    assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks", ".venv"))]


def test_metadata(release: Release) -> None:
    about = metadata(release.wheel)
    assert (about["Name"], about["Version"]) == ("mindgap", mindgap.__version__)
    assert about["License-Expression"] == "Apache-2.0 AND MIT"
    assert {Path(name).name for name in about.get_all("License-File", [])} == {"LICENSE", "LICENSE.GraphNet"}
    assert {line.partition(",")[0] for line in about.get_all("Project-URL", [])} >= {"Source", "Changelog", "Issues"}
    extras = set(about.get_all("Provides-Extra", []))
    assert extras >= {"onnxruntime", "openvino", "campaign", "zoo", "surveys", "studies", "runtimes", "all"}
    oldest, *others = [line.rsplit(" ", 1)[1] for line in about.get_all("Classifier", []) if "Python :: 3." in line]
    assert about["Requires-Python"] == f">={oldest}" and others == ["3.12", "3.13"]
    page = about.get_payload()
    assert isinstance(page, str)
    relative = [link for link in re.findall(r"\]\(([^)\s]+)\)", page) if not link.startswith(("https://", "#"))]
    assert not relative, "relative links lead nowhere on the page of a package index"


@pytest.mark.parametrize("check", [("twine", "check", "--strict"), ("check_wheel_contents",)])
def test_the_checkers_of_releases_pass(release: Release, check: Sequence[str]) -> None:
    files = [release.wheel, release.sdist] if check[0] == "twine" else [release.wheel]
    done = subprocess.run([sys.executable, "-m", *check, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_one_version_stands_everywhere() -> None:
    changes = re.findall(r"^## (\S+) ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert changes[0] == cited["version"] == mindgap.__version__


def test_the_version_names_what_is_installed() -> None:
    done = subprocess.run([sys.executable, "-m", "mindgap", "--version"], capture_output=True, text=True, check=True)
    versions = dict(line.split() for line in done.stdout.splitlines())
    assert versions["mindgap"] == mindgap.__version__
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    for name in ("torch", "onnxruntime", "openvino"):
        assert versions[name] == distribution(name).version


# ------------------------------------------------------------------------------------ environments with a release


def closure(requirement: str, about: Message | None = None, seen: set[tuple[str, str]] | None = None) -> Iterator[str]:
    """Yields the names of the distributions that a requirement brings. `about`: metadata of its distribution."""
    parsed, seen = Requirement(requirement), set() if seen is None else seen
    key = (parsed.name.lower(), ",".join(sorted(parsed.extras)))
    if key in seen:
        return
    seen.add(key)
    if about is None:
        try:
            needs = distribution(parsed.name).requires or []
        except PackageNotFoundError:  # nvidia's libraries, beside a PyTorch for processors
            return
        yield parsed.name
    else:
        needs = about.get_all("Requires-Dist", [])
    for line in needs:
        need = Requirement(line)
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ("", *parsed.extras)):
            need.marker = None
            yield from closure(str(need), None, seen)


def installed(folder: Path, release: Release, file: Path, extras: str = "", more: Sequence[str] = ()) -> Path:
    """Returns the interpreter of an environment with a wheel or sdist, and with links to what it declares."""
    venv.create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    names = set(closure(f"mindgap[{extras}]" if extras else "mindgap", metadata(release.wheel)))
    for name in [*names, *(each for need in more for each in closure(need))]:
        about = distribution(name)
        for top in {Path(str(each)).parts[0] for each in about.files or ()} - {"..", "__pycache__"}:
            if not (packages / top).exists():
                (packages / top).symlink_to(about.locate_file(top))
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index"]
    done = subprocess.run(
        [*command, "--no-build-isolation", "-q", str(file)], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (packages / "mindgap").is_symlink()
    return python


def run(python: Path, home: Path, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "MINDGAP_HOME": str(home), "PYTHONPATH": "", "COLUMNS": "120"}
    command: Sequence[str] = [str(python), "-m", "mindgap", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=variables, cwd=cwd, timeout=250)


@pytest.fixture(scope="module")
def core(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("core") / "venv", release, release.wheel)


def test_libraries_of_extras_are_not_there(core: Path) -> None:
    for module in ("altair", "duckdb", "pyarrow", "vl_convert", "onnxruntime", "openvino", "pytest"):
        assert subprocess.run([core, "-c", f"import {module}"], capture_output=True).returncode, module
    assert subprocess.run([core, "-c", "import torch, pydantic"], capture_output=True).returncode == 0


def test_the_wheel_alone_compares_a_model(core: Path, tmp_path: Path) -> None:
    ran = run(core, tmp_path, "diff", "examples/my_model.py:make", "-p", "cpu/jit")
    assert ran.returncode == 0, ran.stderr
    assert "1 model × 1 platform against cpu/eager: 1 identical; 0 findings" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "needs"),
    [
        (("diff", "examples/my_model.py:make", "-p", "cpu/jit", "--store", "STORE"), "mindgap[store]"),
        (("diff", "MODEL", "-p", "cpu/jit"), "mindgap[litert]"),
        (("coverage", "cpu/jit"), "mindgap[store]"),
        (("report", "STORE", "-o", "page.html"), "mindgap["),
        (("study", "gap", "STORE"), "mindgap["),
    ],
)
def test_what_needs_more_names_the_extra(core: Path, tmp_path: Path, arguments: tuple[str, ...], needs: str) -> None:
    (model := tmp_path / "model.tflite").write_bytes(bytes(4) + b"TFL3" + bytes(8))
    files = {"STORE": str(tmp_path / "store"), "MODEL": str(model)}
    given = [files.get(each, each) for each in arguments]
    ran = run(core, tmp_path, *given)
    (line,) = ran.stderr.strip().splitlines()
    assert ran.returncode == 2 and needs in line and sys.executable not in line


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_the_first_example_of_the_readme_runs(release: Release, kind: str, tmp_path: Path) -> None:
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    file, more = (release.sdist, backend) if kind == "sdist" else (release.wheel, [])
    python = installed(tmp_path / "venv", release, file, RUNTIMES, more)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (model, *_) = re.findall(r"^```python\n(# model.py\n.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    (tmp_path / "model.py").write_text(model)
    (command, *_) = re.findall(r"^\$ mindgap (diff .*)$", readme, re.MULTILINE)
    ran = run(python, tmp_path / "home", *shlex.split(command), "--html", "page.html", cwd=tmp_path)
    assert ran.returncode in (0, 1), ran.stderr
    platforms = re.findall(r"-p (\S+)", command)
    assert f"1 model × {len(platforms)} platforms against cpu/eager" in ran.stdout
    assert all(platform in ran.stdout for platform in platforms)
    assert "failed" not in ran.stdout and "unsupported" not in ran.stdout, ran.stdout
    assert "<html" in (tmp_path / "page.html").read_text(encoding="utf-8")


def interpreters(version: str) -> list[str]:
    """Interpreters of a version: on the path, and those that pyenv keeps."""
    found = [shutil.which(f"python{version}")]
    found += map(str, Path(os.environ.get("PYENV_ROOT", "/nowhere")).glob(f"versions/{version}.*/bin/python{version}"))
    command = ["-c", "import ensurepip, venv"]
    return [each for each in found if each and subprocess.run([each, *command], capture_output=True).returncode == 0]


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "version", re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
)
def test_on_each_declared_python_it_installs_from_an_index_and_compares(release: Release, version: str) -> None:
    python = next(iter(interpreters(version)), None)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    asked = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(release.wheel.parent), "xxhash"]
    if subprocess.run(asked, capture_output=True).returncode:
        pytest.skip("no package index is reached")
    command = [
        sys.executable,
        "tools/fresh_install.py",
        str(release.wheel),
        "--python",
        python,
        "--extras",
        "onnxruntime",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    versions = dict(re.findall(r"^(\w+) +(\d\S*)$", done.stdout, re.MULTILINE))
    assert versions["mindgap"] == mindgap.__version__ and versions["python"].startswith(f"{version}.")
    assert "1 model × 2 platforms against cpu/eager: 1 rounding, 1 identical; 0 findings" in done.stdout
