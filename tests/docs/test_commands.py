"""Every page: its commands are spelled as the command line takes them, and what it names and links to is there.

What commands print is compared by `test_pages.py`.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import shlex
import subprocess
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from mindgap.cli.app import app
from mindgap.platforms.protocol import PlatformError
from mindgap.platforms.registry import canonical

ROOT = Path(__file__).parents[2]
PAGES = subprocess.run(
    ["git", "ls-files", "*.md", "llms.txt"], cwd=ROOT, capture_output=True, text=True, check=True
).stdout.split()
GROUP: Any = typer.main.get_command(app)
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
#: A command, after variables and the folder of an environment. `mindgap: ` begins a line of output.
COMMAND = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?(mindgap|python|pytest|make) (?!-m)(.+)$")
#: The words of a command, up to what follows it: a remark, a pipe, another command.
WORDS = re.compile(r"""(?:'[^']*'|"[^"]*"|(?!\s{2,}| [#>|] | 2>| && |;|: ).)*""")
PLATFORM = re.compile(r"(?<![\w/])[a-z]+/[a-z]+@[a-z]+=[\w.,=-]*\w")
#: Platforms that pages make, and one whose option is a file.
NOT_HERE = ("numpy/", "tiny/", "faulty/")
LINK = re.compile(r"\]\(([^)\s]+)\)")
#: Modes and parts of names that a page writes for the reader to replace.
TO_REPLACE = re.compile(r"[A-Z]{2,}|…|\.\.\.")


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(text: str, *languages: str) -> list[str]:
    return [body for _, language, body in BLOCK.findall(text) if language in languages]


def commands(page: str) -> Iterator[tuple[str, str, bool]]:
    """Yields the program, its arguments, and whether the command stands in a block: there it is whole."""
    text = read(page)
    lines = [
        (line.strip(), True)
        for block in blocks(text, "", "sh", "console")
        for line in re.sub(r"\s*\\\n\s*", " ", block).split("\n")
    ]
    for line, in_block in [*lines, *((each, False) for each in INLINE.findall(BLOCK.sub("", text)))]:
        if match := COMMAND.match(line):
            arguments = re.sub(r"\$\([^)]*\)", "VALUE", match[2])
            yield match[1], re.sub(r"\[(-[^\]]*)\]", r"\1", WORDS.match(arguments)[0]), in_block


def problem_of_arguments(words: list[str], whole: bool) -> str:
    """Parses the arguments of mindgap without running anything."""
    command, path, whole = GROUP, "mindgap", whole and "…" not in words
    while words and not words[0].startswith("-") and hasattr(command, "list_commands"):
        if TO_REPLACE.search(words[0]):
            return ""
        path += f" {words[0]}"
        command = command.get_command(typer.Context(command, info_name=path), words[0])
        if command is None:
            return f"no command {path}"
        words = words[1:]
    options = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    if hasattr(command, "list_commands"):
        return "" if set(words) <= options else f"{path} has no option {words}"
    words = ["1" if word == "N" else word for word in words if word != "--verbose"]
    try:
        command.make_context(path, [*words])
    except typer.TyperException as error:
        # In a sentence a command stands without its arguments, and an option without its value.
        if whole or type(error).__name__ not in ("MissingParameter", "BadOptionUsage"):
            return f"{path}: {error}"
    given = [word for before, word in zip(["", *words], words, strict=False) if before in ("-p", "--platform")]
    return next(filter(None, map(problem_of_platform, given)), "")


def problem_of_platform(name: str) -> str:
    if TO_REPLACE.search(name) or name.startswith(NOT_HERE):
        return ""
    try:
        canonical(name)
    except PlatformError as error:
        return str(error)
    return ""


def problem_of_program(program: str, words: list[str]) -> str:
    """Whether a script, a test or a target is in the repository, and the script has the options."""
    if program == "make":
        targets = re.findall(r"^([\w%./$()-]+):", read("Makefile"), re.MULTILINE)
        known = [re.escape(each.replace("$(VENV)", ".venv")).replace("%", "[a-z]+") for each in targets]
        return "" if any(re.fullmatch(each, words[0]) for each in known) else f"no target {words[0]}"
    files = [
        word.partition("::")[0]
        for word in words
        if re.match(r"(benchmarks|tools|docs)/.*[.](py|toml|md)$|tests/", word)
    ]
    if gone := [name for name in files if not TO_REPLACE.search(name) and not [*ROOT.glob(name)]]:
        return f"no {gone[0]}"
    if program == "python" and files and words[0] == files[0] and not TO_REPLACE.search(files[0]):
        text = (ROOT / files[0]).read_text(encoding="utf-8")
        options = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        unknown = {option for option in options if not re.search(rf"[\"']{option}[\"']", text)}
        return f"{files[0]} has no {unknown}" if unknown else ""
    return ""


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_spelled_as_they_are_taken(page: str) -> None:
    wrong: list[str] = []
    for program, arguments, whole in commands(page):
        words = shlex.split(arguments)
        problem = problem_of_arguments(words, whole) if program == "mindgap" else problem_of_program(program, words)
        wrong += [f"{program} {arguments}: {problem}"] if problem else []
    wrong += [problem for name in PLATFORM.findall(read(page)) if (problem := problem_of_platform(name))]
    assert not wrong, "\n".join(wrong)


def test_wrong_spellings_are_seen() -> None:
    assert "no command" in problem_of_arguments(["dif", "model.py:make"], False)
    assert "--budge" in problem_of_arguments(["diff", "model.py:make", "-p", "cpu/jit", "--budge", "1m"], True)
    assert problem_of_arguments(["diff", "model.py:make"], True)
    assert "cpu/jot" in problem_of_arguments(["diff", "model.py:make", "-p", "cpu/jot"], True)
    assert problem_of_platform("openvino/cpu@precison=f32")
    assert problem_of_program("make", ["tests"]) and not problem_of_program("make", ["test-zoo"])
    assert problem_of_program("python", ["tools/release.py", "--acount", "NAME"])
    assert problem_of_program("pytest", ["tests/test_relase.py"])


@pytest.mark.parametrize("page", PAGES)
def test_blocks_can_be_read_and_what_they_import_is_there(page: str) -> None:
    text = read(page)
    for block in blocks(text, "toml"):
        tomllib.loads(block)
    for block in blocks(text, "yaml"):
        yaml.safe_load(block)
    for block in blocks(text, "json"):
        json.loads(block if block.startswith(("{", "[")) else f"{{{block}}}")
    for block in blocks(text, "python"):
        for node in ast.walk(ast.parse(textwrap.dedent(block))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("mindgap"):
                module = importlib.import_module(str(node.module))
                assert not [each.name for each in node.names if not hasattr(module, each.name)], node.module


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as the site and GitHub make them."""
    titles = re.findall(r"^#+ (.+?)\s*$", BLOCK.sub("", text), re.MULTILINE)
    words = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[\s]", "-", re.sub(r"[^\w\s-]", "", each).strip()) for each in words}


@pytest.mark.parametrize("page", PAGES)
def test_links_into_the_repository_lead_somewhere(page: str) -> None:
    """Of pages of the site its strict build checks links too, but not those out of `docs`, or of README."""
    text = BLOCK.sub("", read(page))
    for link in LINK.findall(text):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        made = "findings" in target.parts and target.suffix in (".md", "")
        assert target.exists() or made, link
        if anchor and target.suffix == ".md" and target.exists():
            assert anchor in anchors(target.read_text(encoding="utf-8")), link
