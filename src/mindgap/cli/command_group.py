"""Lists the commands by task, imports one when it is run, and prints help of at most 80 columns, options in groups."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from mindgap.cli.completion import environment_names, platform_names, source_prefixes, without_prefix
from mindgap.graph import MindgapError
from mindgap.run.extensions import COMMANDS, commands, loaded

#: The commands of mindgap, by the object that `loaded` returns. Others are entry points.
_OWN: Final = {
    "cache": "mindgap.cli.cache:cache",
    "capture": "mindgap.cli.capture:capture",
    "diff": "mindgap.cli.diff:diff",
    "env": "mindgap.cli.env:env",
    "platforms": "mindgap.cli.env:platforms",
    "reduce": "mindgap.cli.reduce:reduce",
    "report": "mindgap.cli.report:report",
    "trace": "mindgap.cli.trace:trace",
}

#: In which order help lists commands. One that is not named here is a further one.
_TASKS: Final[Mapping[str, tuple[str, ...]]] = {
    "Compare a model": ("diff", "stress", "against", "upgrade", "bisect", "trace", "reduce", "precision", "invariance"),
    "Know a platform": ("platforms", "env", "coverage", "portability", "repeats", "metamorphic"),
    "Keep models and results": ("capture", "report", "cache", "corpus"),
    "Test by the thousand, and study": ("demo", "synth", "campaign", "causes", "study", "selftest"),
}
_FURTHER: Final = "Further"

#: Options by group, for every command.
_OPTION_GROUPS: Final[Mapping[str, frozenset[str]]] = {
    "Platforms": frozenset(("--platform", "--reference", "--from", "--to", "--threads", "--own-path", "--as")),
    "What is compared": frozenset((
        "--set", "--capture-env", "--inside", "--path-taken", "--steps", "--text", "--ignore-output", "--output-mask",
        "--backward", "--input-map", "--inputs", "--reference-model", "--dynamic", "--internal", "--layer", "--nodes",
    )),
    "Findings": frozenset((
        "--baseline", "--update-baseline", "--allow", "--require-support", "--require-finite", "--require-identical",
        "--no-trace", "--no-judge", "--ledger", "--update-ledger", "--max-flips",
    )),
    "Output": frozenset((
        "--json", "--metrics", "--html", "--junit", "--sarif", "--store", "--out", "--output", "--csv", "--dump",
        "--overlay",
    )),
    "Limits": frozenset((
        "--deadline", "--budget", "--jobs", "--repeat", "--seconds", "--checks", "--memory", "--timeout", "--processes",
        "--coverage-minutes", "--cpu-minutes", "--max-requests",
    )),
}  # fmt: skip
#: A command with fewer options lists them in one group.
_FEW: Final = 6

_COMPLETED: Final[Mapping[str, Callable[[str], list[str]]]] = {
    "PLATFORM": platform_names, "SOURCE": source_prefixes, "ENV": environment_names,
}  # fmt: skip


class Command(TyperCommand):
    """A command whose help shows options in groups and ends with examples that can be copied."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        for paragraph in _parted(self.help or "")[0]:
            formatter.write_paragraph()
            formatter.write_text(paragraph)

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        pieces = [re.sub(r"^[{](.*)[}](\.{3})?$", r"\1", each) for each in self.collect_usage_pieces(ctx)]
        pieces = [re.sub(r"^\[+([^].…]+).*[.]{3}$", r"[\1…]", each) for each in pieces]
        formatter.write_usage(ctx.command_path, " ".join(pieces))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], **{name: [] for name in _OPTION_GROUPS}}
        few = len(self.get_params(ctx)) <= _FEW
        for param in self.get_params(ctx):
            line = param.get_help_record(ctx)
            if line is None:
                continue
            fitting = [name for name, options in _OPTION_GROUPS.items() if not few and options.intersection(param.opts)]
            name = "Arguments" if param.param_type_name == "argument" else (fitting or ["Options"])[0]
            sections.setdefault(name, []).append((_shown_type(line[0]), line[1]))
        for name, lines in sections.items():
            if lines:
                with formatter.section(name):
                    formatter.write_dl(lines, col_max=24)
        _, examples = _parted(self.help or "")
        if examples:
            with formatter.section("Examples"):
                for each in examples:
                    # A quoted argument stays in one line: with no-break spaces.
                    quoted = re.sub(r"'[^']*'", lambda part: part[0].replace(" ", "\xa0"), each)
                    lines = textwrap.wrap(quoted, formatter.width - 8, break_on_hyphens=False, break_long_words=False)
                    formatter.write("  " + " \\\n      ".join(lines).replace("\xa0", " ") + "\n")


def _shown_type(option: str) -> str:
    """Returns an option with the usual word for its type, which Typer shows as `<int range>`."""
    if "<list" in option or option[0] != "-":
        return option.partition(" <")[0]
    return re.sub(r"<(int|float).*>", "N", re.sub(r"<(?:str|Path|path|file).*>", "TEXT", option))


def _parted(text: str) -> tuple[list[str], list[str]]:
    """Returns the paragraphs of a docstring, and its examples, one command each."""
    paragraphs = [" ".join(each.split()) for each in text.split("\n\n") if each.strip()]
    examples = [each for each in paragraphs if each.startswith(("Example:", "Examples:"))]
    shown = [
        part for each in examples for part in each.partition(":")[2].replace(" | mindgap ", "\nmindgap ").split("\n")
    ]
    return [each for each in paragraphs if each not in examples], [each.strip() for each in shown]


class CommandGroup(TyperGroup):
    """The commands of mindgap and of installed packages. Each is imported when it is run, or listed with its help."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for names in _by_task().values() for name in names]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self._load(args[0])
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if ctx.resilient_parsing and cmd_name not in self.commands:
            return TyperCommand(cmd_name)  # a shell completes its name, and needs no more of it
        return self._load(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for task, names in _by_task().items():
            with formatter.section(task):
                formatter.write_dl([(name, _first_sentence(self._load(name).help or "")) for name in names], col_max=14)

    def _load(self, name: str) -> Any:
        point = _points().get(name)
        if name not in self.commands and point is not None:
            try:
                self.commands[name] = _built(name, loaded(point))
            except MindgapError as error:
                self.commands[name] = _missing(point, error)
        return self.commands.get(name)


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.])\s|\n\n", " ".join(text.partition("\n\n")[0].split()))[0]


def _points() -> dict[str, EntryPoint]:
    own = {name: EntryPoint(name, value, COMMANDS) for name, value in _OWN.items()}
    return {point.name: point for point in commands()} | own


def _by_task() -> dict[str, list[str]]:
    known = _points()
    named = {task: [name for name in names if name in known] for task, names in _TASKS.items()}
    further = sorted(known.keys() - {name for names in named.values() for name in names})
    return {task: names for task, names in {**named, _FURTHER: further}.items() if names}


def _built(name: str, command: Callable[..., Any] | typer.Typer) -> Any:
    """Returns the command of a function, or the group of a `typer.Typer`."""
    app = command if isinstance(command, typer.Typer) else typer.Typer(add_completion=False)
    if app is not command:
        app.command(name)(command)
    app.rich_markup_mode = None
    for info in app.registered_commands:
        info.cls = Command
        info.short_help = _first_sentence(info.help or getattr(info.callback, "__doc__", None) or "")  # not cut
    app._add_completion = False  # pyright: ignore[reportPrivateUsage] (the whole has it)
    built = typer.main.get_command(app)
    built.name = name
    for each in (built, *getattr(built, "commands", {}).values()):
        for param in each.params:
            names = _COMPLETED.get((param.metavar or "").strip("…"))
            if names is not None:
                setattr(param, "_custom_shell_complete", partial(_completed, names))  # noqa: B010 (private to Typer)
    return built


def _completed(names: Callable[[str], list[str]], _context: object, _param: object, incomplete: str) -> list[str]:
    return without_prefix(names(incomplete), incomplete)


def _missing(point: EntryPoint, error: MindgapError) -> TyperCommand:
    """Returns a command whose libraries are missing: any arguments name them. Its help is read from its source."""

    def raising(_: Sequence[str] = ()) -> None:
        raise error

    settings = {"allow_extra_args": True, "ignore_unknown_options": True}
    text = f"{_help_in_source(point)}\n\nNot here: {error}"
    return Command(point.name, callback=raising, help=text, context_settings=settings, rich_markup_mode=None)


def _help_in_source(point: EntryPoint) -> str:
    """Returns the docstring of a command's function, or the help of its `typer.Typer`, without importing it."""
    package, _, rest = point.module.partition(".")
    spec = find_spec(package)
    folder = (spec.submodule_search_locations if spec else None) or ["."]
    file = Path(folder[0]) / f"{rest.replace('.', '/')}.py"
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name == point.attr:
            return (ast.get_docstring(node) or "").partition("\n\n")[0]
        if isinstance(node, ast.keyword) and node.arg == "help" and isinstance(node.value, ast.Constant):
            return str(node.value.value)
    return ""
