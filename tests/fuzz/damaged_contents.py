"""Damages bytes, and trees of JSON: what the formats of `tests/fuzz/damaged_files.py` have in common."""

from __future__ import annotations

import copy
import io
import random
import zipfile
from typing import Any

NUMBERS = (0, 1, -1, 2, 7, 127, 128, 1 << 20, (1 << 31) - 1, 1 << 40, 1 << 63, 1 << 70, -(1 << 40))
STRINGS = ("", "\0", "aten.sin.default", "aten.no_such.default", "float32", "é" * 300, "../../outside", "0" * 64, "[")
FLOATS = (0.0, -0.0, 1e308, float("nan"), float("inf"), -1.5)
#: What takes the place of a value.
STRANGE: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 70, 1e308, float("nan"), "", "\0", "../../outside", "/tmp/outside", "é" * 300, [], {},
    [[]], {"a": {}}, "9" * 5000, [1] * 50,
)  # fmt: skip


def damaged_bytes(data: bytes, random_: random.Random) -> bytes:
    """Returns bytes with one to four kinds of damage."""
    found = bytearray(data)
    for _ in range(random_.randint(1, 4)):
        at, length = random_.randrange(len(found) + 1), random_.choice((1, 2, 4, 8, 64))
        match random_.randrange(6):
            case 0 if at < len(found):
                found[at] ^= 1 << random_.randrange(8)
            case 1:
                del found[at : at + length]
            case 2:
                found[at:at] = random_.randbytes(length)
            case 3:
                found[at:at] = found[at : at + length]
            case 4:
                found[at : at + length] = bytes(len(found[at : at + length]))
            case _:
                if random_.random() < 0.2:
                    del found[at:]
                elif at < len(found):
                    found[at] = random_.choice((0, 1, 0x7F, 0x80, 0xFF))
    return bytes(found)


def damaged_tree(tree: Any, random_: random.Random) -> Any:
    """Returns a tree of JSON in which one to three values or keys are others. Changes the given tree."""
    found = {"root": tree}
    for _ in range(random_.randint(1, 3)):
        places = _places(found)
        holder, key = random_.choice(places)
        match random_.randrange(5):
            case 0 if holder is not found:
                del holder[key]
            case 1 if isinstance(holder, dict) and holder is not found:
                holder[str(random_.choice(STRANGE))] = holder.pop(key)
            case 2:
                holder[key] = [holder[key], copy.deepcopy(holder[key])]
            case 3:
                other, place = random_.choice(places)
                holder[key] = copy.deepcopy(other[place])
            case _:
                holder[key] = copy.deepcopy(random_.choice(STRANGE))
    return found["root"]


def _places(tree: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    _add_places(tree, found)
    return found


def _add_places(tree: Any, found: list[tuple[Any, Any]]) -> None:
    for key, value in list(tree.items()) if isinstance(tree, dict) else enumerate(tree):
        found.append((tree, key))
        if isinstance(value, dict | list):
            _add_places(value, found)


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
