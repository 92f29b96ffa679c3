"""Counts how often public functions are called in Python files, and draws functions by usage."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mindgap.graph import MindgapError
from mindgap_studies.results.ported_functions import DrawnFunction
from mindgap_surveys.support.code_scan import called_names

#: Files that are parsed for one framework at most, drawn at random: as many as the paper took.
MOST_FILES: Final = 3000
#: Larger files are generated, or data.
_MOST_BYTES: Final = 1 << 20
_DECILES: Final = 10


@dataclass
class Usage:
    """`calls`: by full name. `unreadable`: files that do not parse, by their path, and why."""

    files: int = 0
    calls: Counter[str] = field(default_factory=Counter[str])
    unreadable: dict[str, str] = field(default_factory=dict[str, str])


def count_calls(
    folders: Iterable[Path], package: str, *, packages: Iterable[Path] = (), seed: int, most: int = MOST_FILES,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> Usage:  # fmt: skip
    """Counts the calls of a package's names in the Python files of folders that import it.

    All files of `folders` are parsed first, and then as many of `packages` as make `most` files, drawn with `seed`. A
    file that occurs in several packages at the same place counts once. Raises `MindgapError` where no file imports the
    package.
    """
    folders = list(folders)
    own = {file.resolve(): file for folder in folders for file in _python_files(folder)}
    files: dict[str, Path] = {}
    for folder in packages:
        for file in _python_files(folder):
            files.setdefault(str(file.relative_to(folder)), file)
    marks = tuple(f"{word} {package}".encode() for word in ("import", "from"))
    names = sorted(files)
    random.Random(seed).shuffle(names)
    order = [*sorted(own.values()), *(files[name] for name in names if files[name].resolve() not in own)]
    usage = Usage()
    for place, file in enumerate(order):
        if usage.files >= most and place >= len(own):
            break
        try:
            source = file.read_bytes()
            if len(source) > _MOST_BYTES or not any(mark in source for mark in marks):
                continue
            usage.calls.update(called_names(source, package))
            usage.files += 1
        except (SyntaxError, ValueError, OSError, RecursionError, MemoryError) as error:
            line = f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else str(error)
            usage.unreadable[str(file)] = line or type(error).__name__
        tick(place, len(order))
    if not usage.files:
        raise MindgapError(f"{', '.join(map(str, folders)) or 'installed packages'}: no Python file imports {package}")
    return usage


def _python_files(folder: Path) -> Iterator[Path]:
    """All Python files below a folder, in folders of any name: packages have one called `build` or `dist`. A file is
    itself."""
    return iter([folder]) if folder.is_file() else (each for each in folder.rglob("*.py") if each.is_file())


def draw_functions(
    uses: Counter[str], *, top: int, per_decile: int, seed: int, untestable: Callable[[str], str]
) -> tuple[tuple[DrawnFunction, ...], dict[str, str]]:
    """Draws the `top` most used functions, and `per_decile` at random of each decile of usage.

    Functions are ranked by calls, equal ones by name. `untestable`: why a function has no sample, empty where it has;
    such a function is replaced by the next of the ranking, or by another of its decile. Returns the draw, and what was
    left out with the reason. As in The Grand Illusion (arXiv 2309.07181), save that what cannot be tested is replaced.
    """
    ranked = sorted(uses, key=lambda name: (-uses[name], name))
    drawn: dict[str, DrawnFunction] = {}
    left_out: dict[str, str] = {}

    def take(names: Sequence[str], count: int, stratum: str) -> None:
        for name in names:
            if sum(each.stratum == stratum for each in drawn.values()) == count:
                return
            if name in drawn or name in left_out:
                continue
            why = untestable(name)
            if why:
                left_out[name] = why
            else:
                drawn[name] = DrawnFunction(name, uses[name], stratum)

    take(ranked, top, "top")
    rng = random.Random(seed)
    for decile in range(_DECILES):
        members = ranked[decile * len(ranked) // _DECILES : (decile + 1) * len(ranked) // _DECILES]
        rng.shuffle(members)
        take(members, per_decile, f"decile {decile + 1}")
    return tuple(drawn.values()), left_out
