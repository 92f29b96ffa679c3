"""The help of every command: at most 80 columns, whole names of options, groups, examples."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from mindgap.cli.app import app
from mindgap.cli.command_group import CommandGroup

GROUP: Any = typer.main.get_command(app)
assert isinstance(GROUP, CommandGroup)


def commands(command: Any = GROUP, path: str = "mindgap") -> Iterator[tuple[str, Any]]:
    context = typer.Context(command, info_name=path)
    yield path, command
    names = command.list_commands(context) if hasattr(command, "list_commands") else []
    for name in names:
        yield from commands(command.get_command(context, name), f"{path} {name}")


COMMANDS = dict(commands())


def shown(path: str) -> str:
    return COMMANDS[path].get_help(typer.Context(COMMANDS[path], info_name=path))


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("path", COMMANDS)
def test_help_fits_80_columns_and_cuts_no_option(path: str) -> None:
    text = shown(path)
    assert max(map(len, text.splitlines())) <= 80
    for param in COMMANDS[path].params:
        for option in [each for each in param.opts if each.startswith("--")]:
            assert re.search(rf"^  (-\w, )?(\S+ / )?{option}( |$)", text, re.MULTILINE), option
    assert not re.search(r"<\w+", text), "a type of Python"
    assert not re.search(r"\w\.\.\.$", text, re.MULTILINE), "a sentence that is cut"


@pytest.mark.parametrize("path", [path for path, command in COMMANDS.items() if not hasattr(command, "commands")])
def test_a_command_ends_with_an_example_of_itself(path: str) -> None:
    example = shown(path).partition("\nExamples:\n")[2].replace(" \\\n     ", "")
    assert path in example and all(line.startswith("  ") for line in example.splitlines())
    assert not [line for line in example.splitlines() if line.rpartition("&& ")[2].count("mindgap ") > 1]
    assert not [line for line in example.splitlines() if line.count("'") % 2], "a line ends within a quoted argument"
    assert not re.search(r"\[\[|\.\.\.", shown(path).partition("\n\n")[0]), "brackets and dots twice"


def test_commands_are_listed_by_task() -> None:
    text = shown("mindgap")
    assert text.index("Compare a model:") < text.index("  diff ") < text.index("  upgrade ")
    assert text.index("Know a platform:") < text.index("  platforms ") < text.index("  env ")
    assert "..." not in text.partition("Compare a model:")[2] and "Further:" not in text


def test_options_are_in_groups() -> None:
    text = shown("mindgap diff")
    order = ["Arguments:", "Platforms:", "--reference", "What is compared:", "--set", "Findings:", "--baseline"]
    order += ["Output:", "--html", "Limits:", "--deadline", "Examples:"]
    places = [text.index(f"\n{each}" if each.endswith(":") else f"  {each} ") for each in order]
    assert places == sorted(places)


def test_brackets_are_text() -> None:
    assert "DEVICE/MODE[@key=value,…]" in shown("mindgap diff")


def test_a_command_whose_libraries_are_missing_has_its_help() -> None:
    script = (
        "import sys\nfor name in ('pyarrow', 'duckdb'): sys.modules[name] = None\n"
        "from mindgap.cli.app import main\nmain(['--help'])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    listed = dict(re.findall(r"^  (\w+) +(.*)$", ran.stdout, re.MULTILINE))
    assert listed["invariance"].startswith("Ask whether") and listed["study"].startswith("The tables")
    assert "not installed" not in ran.stdout
