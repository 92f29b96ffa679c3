"""Checks the paths of results before a run, and writes each so that a failure costs only that file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from mindgap.cli.streams import complain
from mindgap.graph import MindgapError


def check_files(*outputs: tuple[str, Path | None]) -> None:
    """Raises `MindgapError` for a file that could not be written. `outputs`: options, each with its path or None."""
    for option, path in outputs:
        if path is None:
            continue
        folder = path.parent
        if path.is_dir():
            raise MindgapError(f"{option} {path}: it is a directory; name a file")
        if not folder.is_dir():
            raise MindgapError(f"{option} {path}: there is no directory {folder}; make it first")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise MindgapError(f"{option} {path}: it cannot be written: no permission, or a read-only file system")


def check_directory(option: str, path: Path) -> None:
    """Raises `MindgapError` for a directory that could neither be made nor written to. Makes none."""
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not there.is_dir():
        raise MindgapError(f"{option} {path}: {there} is not a directory")
    if not os.access(there, os.W_OK | os.X_OK):
        raise MindgapError(f"{option} {path}: {there} cannot be written: no permission, or a read-only file system")


def check_local(option: str, path: Path, advice: str) -> None:
    """Raises `MindgapError` for a URL where a directory of this machine is needed. `advice`: what to do instead."""
    # A path holds one of the two slashes of a URL.
    if re.match(r"[a-z][a-z0-9+]+:/", str(path)):
        url = str(path).replace(":/", "://", 1)
        raise MindgapError(f"{option} {url}: a directory of this machine is needed; {advice}")


def write_file(path: Path, text: str | bytes) -> None:
    """Writes a result to a file of a directory that is there. Raises `MindgapError` if that fails."""
    try:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    except OSError as error:
        raise MindgapError(f"{path} cannot be written: {error.strerror}") from None


def put_known(notes: Sequence[str], text: str, file: Path | None) -> None:
    """Prints what is gone, back or expired, and writes the file of known findings where requested."""
    for line in notes:
        complain(line)
    if file is not None:
        write_file(file, text)


def make_directory(path: Path) -> None:
    """Makes a requested directory. Raises `MindgapError` if that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MindgapError(f"{path} cannot be made: {error.strerror}") from None


def each_alone(writers: Sequence[Callable[[], object]]) -> bool:
    """Runs every writer. One that raises `MindgapError` costs one line on standard error. Returns whether all ran."""
    done = True
    for write in writers:
        try:
            write()
        except MindgapError as error:
            complain(str(error))
            done = False
    return done
