"""Files that other programs read: the action, the hook, the container file, llms.txt, docs/for-agents.md."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import mindgap
from mindgap.cli import main
from mindgap.report.words import MEANINGS

ROOT = Path(__file__).parents[1]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _closed(required: tuple[str, ...], /, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": properties, "additionalProperties": False}


def _named(value: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "patternProperties": {"^[_a-zA-Z][a-zA-Z0-9_-]*$": value}, "additionalProperties": False}


TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
SWITCH = {"type": "boolean"}
#: What GitHub's metadata syntax says of a composite action, for the keys that are used here.
ACTION = _closed(
    ("name", "description", "runs"),
    name=TEXT, author=TEXT, description=TEXT,
    branding=_closed((), icon=TEXT, color=TEXT),
    inputs=_named(_closed(("description",), description=TEXT, required={"type": "boolean"}, default=TEXT)),
    outputs=_named(_closed(("description", "value"), description=TEXT, value=TEXT)),
    runs=_closed(
        ("using", "steps"),
        using={"const": "composite"},
        steps={
            "type": "array",
            "minItems": 1,
            "items": _closed(("run", "shell"), run=TEXT, shell=TEXT, name=TEXT, id=TEXT, env=_named(TEXT)),
        },
    ),
)  # fmt: skip
#: What pre-commit takes of a hook in a repository's manifest.
STAGES = ["commit-msg", "manual", "post-checkout", "pre-commit", "pre-merge-commit", "pre-push", "prepare-commit-msg"]
HOOKS = {
    "type": "array",
    "minItems": 1,
    "items": _closed(
        ("id", "name", "entry", "language"),
        id=TEXT, name=TEXT, entry=TEXT, description=TEXT, language={"enum": ["python", "system"]}, files=TEXT,
        types=TEXTS, args=TEXTS, pass_filenames=SWITCH, always_run=SWITCH, require_serial=SWITCH,
        stages={"type": "array", "items": {"enum": STAGES}}, minimum_pre_commit_version=TEXT,
    ),
}  # fmt: skip


def test_the_action_keeps_its_schema() -> None:
    jsonschema.validate(yaml.safe_load(read("action.yml")), ACTION)


@pytest.mark.parametrize(
    ("version", "extras", "requirement"),
    [
        ("", "onnxruntime,openvino", "HERE[html,onnxruntime,openvino]"),
        ("", "", "HERE[html]"),
        ("0.2.0", "timm", "mindgap[html,timm]==0.2.0"),
    ],
)
def test_the_action_installs_what_writes_its_page(tmp_path: Path, version: str, extras: str, requirement: str) -> None:
    (step, *_) = yaml.safe_load(read("action.yml"))["runs"]["steps"]
    stub = tmp_path / "python"
    stub.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
    stub.chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "VERSION": version, "EXTRAS": extras, "HERE": "HERE"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", step["run"]], env=variables, capture_output=True, text=True
    )
    assert done.stdout.split()[:4] == ["-m", "pip", "install", requirement]


def test_the_hook_keeps_its_schema_and_its_command_runs(capfd: pytest.CaptureFixture[str]) -> None:
    hooks = yaml.safe_load(read(".pre-commit-hooks.yaml"))
    jsonschema.validate(hooks, HOOKS)
    (hook,) = hooks
    program, *arguments = shlex.split(hook["entry"])
    assert program == "mindgap" and main([*arguments, "--help"]) == 0
    capfd.readouterr()
    assert f"id: {hook['id']}" in read("docs/for-agents.md") and f"rev: v{mindgap.__version__}" in read(
        "docs/for-agents.md"
    )


def steps(kind: str) -> list[str]:
    lines = re.sub(r"\\\n", " ", read("Containerfile")).splitlines()
    return [line.partition(" ")[2] for line in lines if line.startswith(f"{kind} ")]


def test_the_container_file_copies_what_its_context_has() -> None:
    kept = [line[1:] for line in read(".containerignore").splitlines() if line.startswith("!")]
    sources = [name for step in steps("COPY") for name in step.split()[:-1]]
    for name in sources:
        assert (ROOT / name).exists() and any(fnmatch.fnmatch(name, each) for each in kept), name
    project = tomllib.loads(read("pyproject.toml"))
    (extras,) = re.findall(r"/src\[([\w,]+)\]", read("Containerfile"))
    assert set(extras.split(",")) <= project["project"]["optional-dependencies"].keys()
    # What the build of the wheel reads, but for a licence that lies in `src`.
    assert {"LICENSE", "README.md", "pyproject.toml", "src"} <= set(sources)
    pinned = dict(line.split("==") for line in read("constraints.txt").split())
    assert f"torch=={pinned['torch']} " in read("Containerfile")


@pytest.mark.nightly
def test_the_container_files_comparison_runs(tmp_path: Path) -> None:
    (command,) = [step.rpartition("&& ")[2] for step in steps("RUN") if "mindgap diff" in step]
    arguments = shlex.split(command.replace("/src/", f"{ROOT}/"))[1:]
    variables = {**os.environ, "MINDGAP_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "mindgap", *arguments], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_the_steps_of_the_container_file_run_in_a_fresh_root(tmp_path: Path) -> None:
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        pytest.skip("it takes debootstrap, and the rights of root")
    (index,) = re.findall(r"TORCH_INDEX=(\S+)", "\n".join(steps("ARG")))
    listed = [sys.executable, "-m", "pip", "index", "versions", "torch", "--index-url", index]
    if subprocess.run(listed, capture_output=True).returncode:
        pytest.skip("PyTorch's index is not reached")
    begun = ["debootstrap", "--variant=minbase", "bookworm", str(tmp_path / "root")]
    if (done := subprocess.run(begun, capture_output=True, text=True)).returncode:
        pytest.skip(f"no mirror of Debian is reached: {done.stderr[-200:]}")
    command = [sys.executable, "tools/container_steps.py", str(tmp_path / "root")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "1 model × 4 platforms against cpu/eager" in done.stdout


def test_llms_txt_has_its_form_and_its_links_lead_somewhere() -> None:
    lines = read("llms.txt").splitlines()
    assert lines[0] == "# mindgap" and lines[2].startswith("> ")
    assert [line for line in lines if line.startswith("## ")] == ["## Use", "## Optional"]
    links = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)(?:: .+)?$", "\n".join(lines), re.MULTILINE)
    assert len(links) == sum(line.startswith("- ") for line in lines)
    assert not [link for link in links if not (ROOT / link).is_file()]


def test_the_page_for_agents_names_every_word_and_real_options(capfd: pytest.CaptureFixture[str]) -> None:
    page = read("docs/for-agents.md")
    table = page.partition("## What to do with each verdict")[2]
    words = {word for line in re.findall(r"^\| (.+?) \|", table, re.MULTILINE) for word in re.findall(r"`(\w+)`", line)}
    assert words - {"word"} == MEANINGS.keys()
    commands = "\n".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL))
    for name, rest in re.findall(r"^mindgap ([a-z]+) (.*?)(?: {2,}#.*)?$", commands, re.MULTILINE):
        assert main([name, "--help"]) == 0
        shown = capfd.readouterr().out
        for option in re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", rest.partition(" | ")[0]):
            assert re.search(rf"(^|[ ,]){option}\b", shown, re.MULTILINE), f"{name} {option}"
