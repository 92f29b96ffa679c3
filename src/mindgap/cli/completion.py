"""Answers what a shell asks to complete: platforms, prefixes of sources, environments. Imports no framework."""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from typing import Final

from typer import _completion_shared

from mindgap.graph.tensors import home

#: The variable by which a shell's script requests completion, and what bash takes for the end of a word.
VARIABLE: Final = "_MINDGAP_COMPLETE"
_BREAKS: Final = "@=:"


def platform_names(incomplete: str) -> list[str]:
    """Returns platforms; behind `@env=`, environments."""
    names = sorted({point.name for point in entry_points(group="mindgap.platforms")})
    before, option, rest = incomplete.rpartition("env=")
    if option and before.endswith(("@", ",")):
        names = [f"{before}{option}{name}" for name in environment_names(rest)]
    elif "@" in incomplete:
        names = [f"{incomplete.rpartition('@')[0]}@env="]
    return [name for name in names if name.startswith(incomplete)]


def environment_names(incomplete: str) -> list[str]:
    """Returns the environments of `mindgap env`, those too whose record is damaged or not written yet."""
    return sorted(path.name for path in (home() / "environments").glob("*") if path.name.startswith(incomplete))


def source_prefixes(incomplete: str) -> list[str]:
    """Returns the schemes of sources. A shell completes files itself where there is none."""
    names = sorted({"graph", "model", "pt2", *(point.name for point in entry_points(group="mindgap.sources"))})
    return [f"{name}:" for name in names if f"{name}:".startswith(incomplete)]


def complete_at_first_request() -> None:
    """Adds a call to the end of Typer's script for zsh, without which the first Tab in a shell completes nothing."""
    scripts = _completion_shared._completion_scripts  # pyright: ignore[reportPrivateUsage] (Typer has no other way)
    last = "compdef %(complete_func)s %(prog_name)s\n"
    call = 'if [[ $zsh_eval_context[-1] == loadautofunc ]]; then %(complete_func)s "$@"; fi\n'
    scripts["zsh"] = scripts["zsh"].replace(last, last + call)


def join_words() -> None:
    """Joins the words that bash splits at `@`, `=` and `:`. `without_prefix` leaves out what it does not replace."""
    if os.environ[VARIABLE] != "complete_bash":
        return
    joined: list[str] = []
    for word in os.environ["COMP_WORDS"].split("\n")[: int(os.environ["COMP_CWORD"]) + 1]:
        if word and len(joined) > 1 and (word[0] in _BREAKS or (joined[-1][-1:] in set(_BREAKS) and word[0] != "-")):
            joined[-1] += word
        else:
            joined.append(word)
    os.environ.update(COMP_WORDS="\n".join(joined), COMP_CWORD=str(len(joined) - 1))


def without_prefix(names: list[str], incomplete: str) -> list[str]:
    """Returns what a shell puts in place of the incomplete word: in bash, of what is behind `=` and `:`, or of `@…`."""
    if os.environ.get(VARIABLE) != "complete_bash":
        return names
    kept = max(incomplete.rfind("=") + 1, incomplete.rfind(":") + 1, incomplete.rfind("@"))
    return [name[kept:] for name in names]
