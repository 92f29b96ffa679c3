"""Damages mindgap's own files, and model files of ONNX and LiteRT, and reads them.

Each must be read, or refused with one typed error.

    TMPDIR=/dev/shm python tests/fuzz/damaged_files.py       # 100,000 of each format; hours for `store` and `rows`
    python tests/fuzz/damaged_files.py model --number 1000

Half of the damage is to bytes: bits flipped, bytes cut out, inserted, repeated, set to zero, the end cut off. The other
half is to what a file holds: values of its JSON, TOML, messages or members are replaced, removed, doubled or renamed,
and the file is packed again, so that its checksums fit. Prints how many were read, how many were refused, and each
untyped error once, with the number of the damage that led to it (`--first N --number 1` repeats it). Nothing may appear
or change outside the directory in which a file is read: all of the script's own directory, with the working directory,
home and the directory for temporary files in it, is looked at after each hundred files, and after each one where
something has changed.

`graph` damages the graph in a model file and packs it again behind right checksums. A whole store costs 0.15 processor
seconds, most of them for DuckDB: `rows` damages values in its rows, under names with the right digests; `segment`
damages the bytes of one Parquet file, under a name with the right digest, and reads what is checked before a query.
`onnx` and `tflite` open a model file and translate it; half of the damage to the latter is to 32-bit numbers, which
offsets and sizes are. Status 1 where something untyped or such a file was found.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from mindgap.findings.causes.ledger import Ledger
from mindgap.findings.known import Baseline
from mindgap.graph import Graph, Input, MindgapError, ModelFile, Stored, TensorStore, digest, encode
from mindgap.graph.model_file import read_model, write_model
from mindgap.results.report_json import decode_report
from mindgap_campaign.campaign.cases.bundle import BundleSource, plan_of
from mindgap_studies.machines.collected_file import read as read_machine

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "mindgap_runtimes")]

from damaged_contents import damaged_bytes, damaged_tree, unzipped, zipped  # noqa: E402
from damaged_graphs import damaged_graph, model_with_everything, small_graph  # noqa: E402
from damaged_models import damaged_message, damaged_numbers, make_onnx, make_tflite, open_model  # noqa: E402
from damaged_stores import (  # noqa: E402
    damaged_rows,
    damaged_store,
    make_segment,
    make_store,
    read_segment,
    read_store,
    small_report,
)

#: Files between two looks at the script's directory.
_LOOKED_AFTER = 100
_OUTSIDE = Path("/tmp/outside")


def _json(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class Format:
    """A kind of file. `make`: a whole file's bytes; `damaged`: its content damaged; `read`: reads it in a directory."""

    name: str
    make: Callable[[Path], bytes]
    damaged: Callable[[bytes, random.Random], bytes]
    read: Callable[[Path], object]


def _make_model(folder: Path) -> bytes:
    tensors, path = TensorStore(folder / "made"), folder / "made.mindgap"
    key = tensors.put(np.arange(6, dtype=np.float32).reshape(2, 3))
    made = small_graph()
    made = Graph((Input(made.inputs[0].spec, Stored(key)),), made.nodes, made.outputs, labels=made.labels)
    write_model(path, ModelFile("it", "model.py:make", made, {"torch": "2"}), tensors)
    return path.read_bytes()


def _damaged_members(data: bytes, random_: random.Random) -> bytes:
    members = unzipped(data)
    name = random_.choice(list(members))
    match random_.randrange(4):
        case 0:
            members[random_.choice(("../../outside", "/tmp/outside", "tensors/x", "graph", "\\x"))] = members.pop(name)
        case 1:
            members[name] = damaged_bytes(members[name], random_)
        case 2 if name.endswith(".json"):
            members[name] = _json(damaged_tree(json.loads(members[name]), random_))
        case _:
            about = bytearray(zipped(members))
            # The fields of a member's header: version, flags, method, sizes.
            for mark in (b"PK\x03\x04", b"PK\x01\x02"):
                start = about.find(mark, random_.randrange(len(about)))
                if start >= 0:
                    about[start + 4 + random_.randrange(26)] = random_.randrange(256)
            return bytes(about)
    return zipped(members)


def _read_model(folder: Path) -> object:
    path = folder / "it.mindgap"
    shutil.move(folder / "file", path)
    return read_model(path, TensorStore(folder / "tensors"))


def _read_report(folder: Path) -> object:
    try:
        text = (folder / "file").read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise MindgapError(str(error)) from None
    report = decode_report(text, "file")
    return report.totals, report.to_json()


def _make_machine(_: Path) -> bytes:
    value = {"number": 1, "op": "aten.sin.default", "where": "x", "shape": [2], "dtype": "int64", "operands": [0],
             "output": True}  # fmt: skip
    document = {
        "format": "mindgap machine observations", "version": 2, "complete": True,
        "machine": {"name": "m", "processor": "p", "vendor": "v", "flags": ["avx"], "cores": 2, "memory_gib": 4,
                    "versions": {"torch": "2"}, "collected": "2026-11-25"},
        "settings": {"cpu/eager": {"threads": 1}},
        "subjects": [{"name": "s", "experiment": "layers", "digest": "0", "facts": {"a": 1}, "values": [value]}],
        "observations": [[0, 0, "ok", [0], ""]], "prefixes": [[0, 1, ["AAAAAAAA"]]],
        "sketches": [[0, 1, [{"mean": 0.0, "norm": 1.0}]]], "deviating": [[0, 1, 0, 2]], "algorithms": {},
    }  # fmt: skip
    return zstandard.ZstdCompressor().compress(_json(document))


def _damaged_machine(data: bytes, random_: random.Random) -> bytes:
    tree = json.loads(zstandard.ZstdDecompressor().decompress(data))
    return zstandard.ZstdCompressor().compress(_json(damaged_tree(tree, random_)))


_PLAN = """
seed = 1
catalogue = "catalogue"
[variants]
count = 4
[platforms."cpu/jit"]
"""


def _make_bundle(_: Path) -> bytes:
    made = small_graph()
    data = encode(made, labels=False)
    case = {"index": 0, "name": "c", "start": 0, "size": len(data), "digest": digest(made), "description": "d",
            "features": ["f"], "nodes": 1, "base": ""}  # fmt: skip
    members = {"campaign.toml": _PLAN.encode(), "blocks/00000.json": _json([case]), "blocks/00000.graphs": data}
    return zipped({"mindgap-pack.json": _json(_about(members)), **members})


def _about(members: dict[str, bytes]) -> dict[str, Any]:
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}
    return {"format": "mindgap-pack", "version": 1, "cases": 1, "blocks": [0], "sha256": hashes}


def _damaged_bundle(data: bytes, random_: random.Random) -> bytes:
    members = unzipped(data)
    about = json.loads(members.pop("mindgap-pack.json"))
    name = random_.choice([*members, ""])
    if name.endswith(".json"):
        members[name] = _json(damaged_tree(json.loads(members[name]), random_))
    elif name:
        members[name] = damaged_bytes(members[name], random_)
    else:
        about = damaged_tree(about, random_)
    about = _about(members) if name else about
    return zipped({"mindgap-pack.json": _json(about), **members})


def _read_bundle(folder: Path) -> object:
    path = folder / "file"
    plan = plan_of(path)
    source = BundleSource(path)
    return plan, source.identity, source.block(0), list(source.samples([0]))


_LEDGER = """
[[issue]]
link = "https://example.com/1"
note = "n"
expires = 2027-01-01
script = "a.py"
workaround = "w"
[issue.match]
platform = ["onnxruntime/*"]
operators = ["aten.sin.default"]
"""


def _damaged_ledger(data: bytes, random_: random.Random) -> bytes:
    lines = data.decode().splitlines()
    for _ in range(random_.randint(1, 3)):
        at = random_.randrange(len(lines))
        name, equals, _ = lines[at].partition(" = ")
        value = random_.choice(
            ('""', "-1", "1e400", "[]", "{}", "true", "2026-13-01", '"../x"', "[[1]]", '["["]', "nan")
        )
        match random_.randrange(3):
            case 0:
                lines[at] = f"{name}{equals}{value}" if equals else f"[{value}]"
            case 1:
                lines.insert(at, lines[random_.randrange(len(lines))])
            case _:
                lines[at] = f"x{lines[at]}"
    return "\n".join(lines).encode()


def _read_ledger(folder: Path) -> object:
    path = folder / "file.toml"
    shutil.move(folder / "file", path)
    return Ledger.load(path)


def _make_baseline(_: Path) -> bytes:
    return _json({"mindgap_baseline": 2, "findings": [
        {"model": "m", "platform": "onnxruntime/cpu", "verdict": "discrepant", "culprit": "aten.sin.default",
         "place": "p", "nodes": [1], "graph": "g", "size": 0.5}]})  # fmt: skip


def _damaged_json(data: bytes, random_: random.Random) -> bytes:
    return _json(damaged_tree(json.loads(data), random_))


FORMATS = {
    each.name: each
    for each in (
        Format("model", _make_model, _damaged_members, _read_model),
        Format("graph", model_with_everything, damaged_graph, _read_model),
        Format("report", lambda _: small_report().to_json().encode(), _damaged_json, _read_report),
        Format("machine", _make_machine, _damaged_machine, lambda folder: read_machine(folder / "file")),
        Format("bundle", _make_bundle, _damaged_bundle, _read_bundle),
        Format("ledger", lambda _: _LEDGER.encode(), _damaged_ledger, _read_ledger),
        Format("baseline", _make_baseline, _damaged_json, lambda folder: Baseline.load(folder / "file")),
        Format("segment", make_segment, damaged_bytes, read_segment),
        Format("tflite", make_tflite, damaged_numbers, open_model(".tflite")),
        Format("onnx", make_onnx, damaged_message, open_model(".onnx")),
        Format("store", make_store, damaged_store, read_store),
        Format("rows", make_store, damaged_rows, read_store),
    )
}


@dataclass
class Found:
    """What became of damaged files. `untyped`: the last line of each error, with the number of the first damage."""

    read: int = 0
    refused: int = 0
    untyped: Counter[str] = field(default_factory=Counter[str])
    first: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    outside: list[int] = field(default_factory=list[int])


def damage(each: Format, number: int, first: int = 0) -> Found:
    """Reads `number` damaged files of a format."""
    found = Found()
    with tempfile.TemporaryDirectory(prefix="mindgap-damage-") as name, _at_home_in(Path(name) / "home"):
        (made := Path(name) / "made").mkdir()
        folder = Path(name) / "inner" / "read"
        folder.mkdir(parents=True)
        whole = each.make(made)
        _read_one(each, whole, folder, 0, found)
        assert found.read == 1, f"the whole {each.name} file cannot be read: {found}"
        found.read = 0
        for start in range(first, first + number, _LOOKED_AFTER):
            counts = range(start, min(start + _LOOKED_AFTER, first + number))
            _read_several(each, whole, Path(name), folder, counts, found)
    return found


def _read_several(each: Format, whole: bytes, root: Path, folder: Path, counts: range, found: Found) -> None:
    """Reads damaged files, and looks at all of the script's directory after the last one. Where something has changed,
    they are read again, and it is looked at after each, so that the file is named."""
    before = _listed(root, folder)
    for count in counts:
        _read_one(each, _damaged(each, whole, count), folder, count, found)
    if _listed(root, folder) == before and not _OUTSIDE.exists():
        return
    named: list[int] = []
    for count in counts:
        _OUTSIDE.unlink(missing_ok=True)
        before = _listed(root, folder)
        _read_one(each, _damaged(each, whole, count), folder, count, Found())
        if _listed(root, folder) != before or _OUTSIDE.exists():
            named.append(count)
    _OUTSIDE.unlink(missing_ok=True)
    found.outside += named or list(counts)  # one that does nothing the second time is one of these


def _damaged(each: Format, whole: bytes, count: int) -> bytes:
    random_ = random.Random(count)
    return damaged_bytes(whole, random_) if _by_bytes(each, random_) else each.damaged(whole, random_)


def _by_bytes(each: Format, random_: random.Random) -> bool:
    """Stores are packed for this script only: their files are damaged, not the package. So are graphs."""
    return random_.random() < 0.5 and each.name not in ("store", "rows", "graph")


@contextmanager
def _at_home_in(home: Path) -> Iterator[None]:
    """Makes a directory the working directory, the home, and the place of temporary files."""
    before, there = (os.environ.get("HOME"), tempfile.tempdir), Path.cwd()
    home.mkdir()
    os.environ["HOME"], tempfile.tempdir = str(home), str(home)
    os.chdir(home)
    try:
        yield
    finally:
        os.chdir(there)
        tempfile.tempdir = before[1]
        if before[0] is None:
            del os.environ["HOME"]
        else:
            os.environ["HOME"] = before[0]


def _listed(root: Path, inner: Path) -> dict[str, tuple[int, int]]:
    """Returns size and time in ns of all that lies below a directory, without what lies below `inner`."""
    found: dict[str, tuple[int, int]] = {}
    waiting = [str(root)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.path == str(inner):
                    continue
                about = entry.stat(follow_symlinks=False)
                is_folder = entry.is_dir(follow_symlinks=False)
                found[entry.path] = (0, 0) if is_folder else (about.st_size, about.st_mtime_ns)
                if is_folder:
                    waiting.append(entry.path)
    return found


def _read_one(each: Format, data: bytes, folder: Path, count: int, found: Found) -> None:
    """Reads one file, and empties its directory."""
    (folder / "file").write_bytes(data)
    try:
        each.read(folder)
        found.read += 1
    except MindgapError:
        found.refused += 1
    except Exception as error:
        line = f"{type(error).__name__}: {str(error)[:120]}"
        place = traceback.extract_tb(error.__traceback__)[-1]
        key = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
        found.untyped[key] += 1
        found.first.setdefault(key, (count, line))
    with os.scandir(folder) as entries:
        for entry in entries:
            shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("formats", nargs="*", help=f"of {', '.join(FORMATS)}; all by default")
    parser.add_argument("--number", type=int, default=100_000, help="damaged files of each format")
    parser.add_argument("--first", type=int, default=0, help="the number of the first damage")
    args = parser.parse_args()
    bad = False
    for name in args.formats or FORMATS:
        found = damage(FORMATS[name], args.number, args.first)
        untyped = sum(found.untyped.values())
        print(f"{name}: {found.read} read, {found.refused} refused, {untyped} untyped, {len(found.outside)} outside")
        for key, count in found.untyped.most_common():
            print(f"  {count} × {key}, first {found.first[key][0]}: {found.first[key][1]}")
        bad |= bool(untyped or found.outside)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
