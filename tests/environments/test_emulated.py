"""Environments on emulated processors: what is refused before anything is downloaded, and one that exists."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mindgap.cli.app import main
from mindgap.graph import Constant, Graph, Input, Node, Ref, TensorSpec
from mindgap.platforms.environment_process import described, probed
from mindgap.platforms.environments import EnvironmentProblem, environments, find
from mindgap.platforms.environments.emulated import arithmetic_words, create_emulated, known_arithmetic
from mindgap.platforms.environments.emulation import PROCESSOR, Emulation, processors
from mindgap.platforms.environments.environment import Environment
from mindgap.platforms.host import cpu_flags, cpu_name
from mindgap.platforms.listing import find_recipe
from mindgap.platforms.protocol import Availability
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool

EMULATION = Emulation("aarch64", "cortex-a72", "/opt/qemu-aarch64-static", "7.2.22", ("sve", "pcid"), "/opt/a root")
#: A program that answers what the emulators do, and starts the program that it is given.
PRETENDED = """#!/bin/bash
case "$*" in
    --version) echo "qemu-x86_64 version 9.9.9 (a pretence)"; exit;;
    "-cpu help") printf 'Available CPUs:\\nx86 Haswell    (alias)\\nx86 Nehalem    old\\n\\nRecognized CPUID flags:\\n  avx\\n'; exit;;
esac
case "$2" in
    Haswell) echo "warning: TCG doesn't support requested feature: CPUID.07H:EBX.avx512f [bit 16]" >&2;;
esac
while [ "${1#-}" != "$1" ]; do [ "$1" = -0 ] && called="$2"; shift 2; done
exec -a "${called:-$1}" "$@"
"""  # noqa: E501


@pytest.fixture
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))


def test_the_interpreter_is_a_script_that_starts_the_emulator(tmp_path: Path) -> None:
    script = tmp_path / "python"
    EMULATION.write_interpreter(script, "/opt/a root/usr/bin/python3.11")
    text = script.read_text()
    assert script.stat().st_mode & 0o111
    assert "exec /opt/qemu-aarch64-static -cpu cortex-a72,-sve,-pcid -L '/opt/a root' -0" in text
    assert f"{PROCESSOR}='cortex-a72 without sve, aarch64, emulated by qemu-aarch64 7.2.22'" in text


def test_an_architecture_without_an_emulator_is_refused_and_one_with_it_is_not(tmp_path: Path) -> None:
    foreign = tmp_path / "python"
    answer = {"python": "3.11.2", "implementation": "CPython", "machine": "riscv64", "prefix": "/", "missing": []}
    foreign.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    foreign.chmod(0o755)
    plain = Environment("rv", str(foreign))
    with pytest.raises(EnvironmentProblem, match=r"built for riscv64, this machine is .*--arch riscv64"):
        plain.check()
    assert replace(plain, emulation=replace(EMULATION, machine="riscv64")).check().machine == "riscv64"
    with pytest.raises(EnvironmentProblem, match="built for riscv64, its emulator is for aarch64"):
        replace(plain, emulation=EMULATION).check()


@pytest.mark.usefixtures("_own_home")
def test_the_record_keeps_the_emulation() -> None:
    kept = Environment("a72", sys.executable, ("torch==2.9.1",), created=True, emulation=EMULATION)
    kept.folder.mkdir(parents=True)
    kept.save()
    assert find("a72") == kept and environments() == [kept]
    assert kept.slower > 1 and replace(kept, emulation=None).slower == 1


@pytest.mark.usefixtures("_own_home")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["arm64", "--python", sys.executable], "do not go with an emulated processor"),
        (["mine", "--arch", "vax"], "no recipe for the architecture vax: mindgap makes environments of aarch64"),
        (["mine", "--arch", platform.machine()], "--cpu names the processor to emulate"),
    ],
)
def test_what_cannot_be_made_is_refused(arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "create", *arguments]) == 2
    err = capfd.readouterr().err
    assert message in err and len(err.splitlines()) == 1


@pytest.mark.usefixtures("_own_home")
def test_without_apt_the_message_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match="apt-get is not on this machine"):
        create_emulated("arm64", (), None, None, lambda line: None)
    assert environments() == []


@pytest.mark.nightly  # five seconds on an idle machine: it checks the arithmetic
@pytest.mark.usefixtures("_own_home")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the pretended emulator is one of x86-64")
def test_a_processor_of_this_architecture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The emulator is pretended: it starts the program itself. All else is real, the check of arithmetic too."""
    emulator = tmp_path / "qemu-x86_64-static"
    emulator.write_text(PRETENDED)
    emulator.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert processors(str(emulator)) == ["Haswell", "Nehalem"]
    with pytest.raises(EnvironmentProblem, match="knows no processor Haswel: did you mean Haswell"):
        create_emulated("other", (), None, "Haswel", lambda line: None)
    made = create_emulated("haswell", (), None, "Haswell", lambda line: None)
    assert made == find("haswell") and made.layered and made.emulation is not None
    assert made.emulation.without == ("avx512f",) and made.emulation.version == "9.9.9"
    assert made.facts().prefix == str(made.folder / "venv")
    found = known_arithmetic(made)
    assert len(found) == 31 and not any(each.wrong for each in found)
    assert arithmetic_words(found).endswith(f"{len(found)} of {len(found)} exact on 1,048,576 values each")


def test_a_process_on_an_emulated_processor_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Present:
        def probe(self) -> Availability:
            return Availability(True, versions={"torch": "2.9.1"})

    assert "execution" not in described()
    monkeypatch.setenv(PROCESSOR, EMULATION.words)
    assert described()["execution"] == "emulated"
    assert cpu_name() == EMULATION.words and cpu_flags() == []
    found = probed(Present(), "haswell", layered=True)  # type: ignore[arg-type]
    assert found.available and found.execution == "emulated" and found.hardware == EMULATION.words


def test_the_recipe_of_arm64() -> None:
    recipe = find_recipe("arm64")
    assert (recipe.machine, recipe.processor, recipe.platforms) == ("aarch64", "cortex-a72", ())
    assert all("==" in each for each in recipe.requirements) and recipe.shared


@pytest.mark.slow  # its Python starts slowly
def test_a_worker_on_arm64_differs_by_rounding_only(tmp_path: Path) -> None:
    try:
        where = find("arm64")
    except EnvironmentProblem as problem:
        pytest.skip(str(problem))
    assert where.emulation is not None
    spec = TensorSpec.contiguous("float32", (7,))
    node = Node("aten.exp.default", (Ref(0),), (), (spec,))
    graph = Graph((Input(spec, Constant(0.7), "input"),), (node,), (1,))
    with WorkerPool(["cpu/eager", "cpu/eager@env=arm64"], tensors=tmp_path) as pool:
        here, there = (pool.run(Job(name, graph, want="outputs")) for name in ("cpu/eager", "cpu/eager@env=arm64"))
        facts = pool.describe("cpu/eager@env=arm64")
    assert here.arrays is not None and there.arrays is not None, there.message
    assert abs(here.arrays[0] - there.arrays[0]).max() < 1e-6
    assert facts["execution"] == "emulated" and where.emulation.words in json.dumps(dict(facts))
