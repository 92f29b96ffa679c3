"""Hosts: other machines, containers and emulators in which workers run, by a command that starts one there.

`[hosts.NAME]` of a `mindgap.toml`, in the working directory or above it, or of a campaign's plan has the command:

    [hosts.edge]
    command = "ssh edge /opt/venv/bin/python -m mindgap worker"

Authentication is the command's. Nothing listens, and nothing is installed there.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from mindgap.platforms.environments.environment import EnvironmentProblem

#: The file with a user's hosts.
FILE: Final = "mindgap.toml"
#: The hosts of a plan, as JSON: for this process and those that it starts.
_OF_PLAN: Final = "MINDGAP_HOSTS"
_HOW: Final = "docs/fleet.md"
_EXAMPLE: Final = 'command = "ssh edge python3 -m mindgap worker"'


class HostProblem(EnvironmentProblem):
    """A host that is not known, is not reached, or cannot run a worker. Of nothing that ran there it is evidence."""


@dataclass(frozen=True, slots=True)
class Host:
    """Where workers run that a command starts.

    `command`: starts `python -m mindgap worker` there, with its three streams on this side's. `connect_s`: seconds
    until that answers. `wait_s`: seconds to wait for a host that was lost. `slower`: so many times the deadlines of
    this machine's processor are allowed there. `workers`: how many work there at the same time.
    """

    name: str
    command: tuple[str, ...]
    connect_s: float = 60.0
    wait_s: float = 60.0
    slower: float = 1.0
    workers: int = 1

    @property
    def words(self) -> str:
        """The command as one types it."""
        return shlex.join(self.command)


def hosts() -> Mapping[str, Host]:
    """Returns the known hosts by name. Raises `HostProblem` for a `mindgap.toml` that is wrong, or somebody else's."""
    file = _file()
    own: Mapping[str, Host] = {} if file is None else _read(file, _trusted(file).st_mtime_ns)
    return {**own, **_plan_hosts(os.environ.get(_OF_PLAN, ""))}


def find_host(name: str) -> Host:
    """Returns a host. Raises `HostProblem` where there is none of that name."""
    known = hosts()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=2)
    hint = f" (did you mean {' or '.join(near)}?)" if near else f"; there are {', '.join(sorted(known)) or 'none'}"
    raise HostProblem(f"no host {name}{hint}; write its command under [hosts.{name}] in a {FILE} ({_HOW})")


def parse_hosts(table: object, where: str) -> dict[str, Host]:
    """Reads a table `hosts`. Raises `HostProblem`, with `where` it stands."""
    if not isinstance(table, dict):
        raise HostProblem(f"{where}: hosts is no table: write [hosts.edge] and {_EXAMPLE}")
    return {
        name: _host(name, entry, f"{where}: [hosts.{name}]") for name, entry in cast("dict[str, Any]", table).items()
    }


def use_hosts_of_plan(table: Mapping[str, Mapping[str, Any]]) -> None:
    """Adds the hosts of a plan, which come before those of `mindgap.toml`, here and in processes started from here."""
    if table:
        os.environ[_OF_PLAN] = json.dumps(table)
    else:
        os.environ.pop(_OF_PLAN, None)


def _file() -> Path | None:
    folder = Path.cwd()
    return next((at / FILE for at in (folder, *folder.parents) if (at / FILE).is_file()), None)


def _trusted(file: Path) -> os.stat_result:
    """Raises `HostProblem` for a file of somebody else, whose commands would run as this user."""
    status = file.stat()
    if status.st_uid not in (0, os.geteuid()):
        raise HostProblem(
            f"{file} belongs to neither you nor root (user {status.st_uid}), and its commands would run as you: make "
            f"it yours (chown) or remove it; a {FILE} of your own in the working directory comes first"
        )
    return status


@cache
def _read(file: Path, _changed: int) -> Mapping[str, Host]:
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise HostProblem(f"{file} cannot be read: {error}") from None
    return parse_hosts(data.get("hosts", {}), str(file))


@cache
def _plan_hosts(text: str) -> Mapping[str, Host]:
    return parse_hosts(json.loads(text), "the plan") if text else {}


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_NUMBERS: Final = ("connect_s", "wait_s", "slower")


def _host(name: str, entry: object, where: str) -> Host:
    if not _NAME.fullmatch(name):
        raise HostProblem(f"{where}: a host's name has letters, digits, '.', '_' and '-', and a letter or digit first")
    if not isinstance(entry, dict):
        raise HostProblem(f"{where} is no table: write {_EXAMPLE}")
    table = cast("dict[str, Any]", entry)
    known = ("command", *_NUMBERS, "workers")
    if unknown := sorted(table.keys() - set(known)):
        raise HostProblem(f"{where} has no key {', '.join(unknown)}: known are {', '.join(known)}")
    numbers: dict[str, Any] = {key: table[key] for key in (*_NUMBERS, "workers") if key in table}
    for key, value in numbers.items():
        kinds = (int,) if key == "workers" else (int, float)
        least = 0 if key == "wait_s" else 1
        if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value < 1e6:
            raise HostProblem(f"{where}: {key} = {value!r}: it takes a number, at least {least}")
    return Host(name, _command(table.get("command"), where), **numbers)


def _command(given: object, where: str) -> tuple[str, ...]:
    try:
        parts = shlex.split(given) if isinstance(given, str) else given
    except ValueError as error:
        raise HostProblem(f"{where}: command {given!r}: {error}") from None
    if not isinstance(parts, list) or not parts or not all(isinstance(each, str) for each in cast("list[Any]", parts)):
        raise HostProblem(f"{where} has no command that starts a worker there: write {_EXAMPLE}")
    return tuple(cast("list[str]", parts))
