"""Damages mindgap's own files, and LiteRT models, and reads them: each must be read, or refused with one typed error.

    TMPDIR=/dev/shm python benchmarks/damaged_files.py       # 100,000 of each format; hours for `store` and `rows`
    python benchmarks/damaged_files.py model --number 1000

Half of the damage is to bytes: bits flipped, bytes cut out, inserted, repeated, set to zero, the end cut off. The other
half is to what a file holds: values of its JSON, TOML or members are replaced, removed, doubled or renamed, and the
file is packed again, so that its checksums fit. Prints how many were read, how many were refused, and each untyped
error once, with the number of the damage that led to it (`--first N --number 1` repeats it). Nothing may appear or
change outside the directory in which a file is read: all of the script's own directory is looked at after each file,
the working directory, home and the directory for temporary files among it. `graph` damages the graph in a model file
and packs it again behind right checksums. A store costs 0.1 processor seconds, most of them for DuckDB: `rows` damages
values in its rows, under names with the right digests; `segment` damages the bytes of one Parquet file, under a name
with the right digest, and reads what is checked before a query. `tflite`
opens a LiteRT model and translates it; half of its damage is to 32-bit numbers, which offsets and sizes are. Status 1
where something untyped or such a file was found.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
import traceback
import warnings
import zipfile
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
from mindgap.graph import (
    Graph,
    Input,
    MindgapError,
    ModelFile,
    Node,
    Ref,
    Stored,
    TensorSpec,
    TensorStore,
    digest,
    encode,
)
from mindgap.graph.compare.culprit import OperatorCulprit
from mindgap.graph.graph import Decision, Labels
from mindgap.graph.model_file import read_model, write_model
from mindgap.platforms.name import CPU_EAGER, parse
from mindgap.results.from_store import report_of
from mindgap.results.recording import recording
from mindgap.results.report_json import decode_report
from mindgap.results.rows import Model, PlatformFacts, Report, Row
from mindgap.results.settings import RunSettings
from mindgap.results.store import Store
from mindgap.results.store.location import LocalLocation
from mindgap.results.store.segment import check_segment, folder_of, segment_name
from mindgap.results.store.tables import TABLES
from mindgap.run.outcome import Outcome
from mindgap.studies.machines.collected_file import read as read_machine
from mindgap.workflows.campaign.cases.bundle import BundleSource, plan_of

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tests")]

from damaged_contents import damaged_graph, damaged_rows, model_with_everything  # noqa: E402

#: What takes the place of a value.
STRANGE: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 70, 1e308, float("nan"), "", "\0", "../../outside", "/tmp/outside", "é" * 300, [], {},
    [[]], {"a": {}}, "9" * 5000, [1] * 50,
)  # fmt: skip


def graph() -> Graph:
    """A graph with a stored weight, and with labels of each kind."""
    spec = TensorSpec("float32", (2, 3), (3, 1))
    decision = Decision(1, "number", "3", "model.py:1", "x.item()")
    return Graph(
        (Input(spec, Stored("0" * 64)),),
        (Node("aten.sin.default", (Ref(0),), (), (spec,)),),
        (1, 0),
        labels=Labels(("x",), ("layer (model.py:3)",), ("out", "decision.0"), (decision,)),
    )


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
    """Returns a tree of JSON in which one to three values or keys are others."""
    found = {"root": copy.deepcopy(tree)}
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
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else []
    for key in keys:
        found.append((tree, key))
        found += _places(tree[key])
    return found


def _json(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def _unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


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
    made = graph()
    made = Graph((Input(made.inputs[0].spec, Stored(key)),), made.nodes, made.outputs, labels=made.labels)
    write_model(path, ModelFile("it", "model.py:make", made, {"torch": "2"}), tensors)
    return path.read_bytes()


def _damaged_members(data: bytes, random_: random.Random) -> bytes:
    members = _unzipped(data)
    name = random_.choice(list(members))
    match random_.randrange(4):
        case 0:
            members[random_.choice(("../../outside", "/tmp/outside", "tensors/x", "graph", "\\x"))] = members.pop(name)
        case 1:
            members[name] = damaged_bytes(members[name], random_)
        case 2 if name.endswith(".json"):
            members[name] = _json(damaged_tree(json.loads(members[name]), random_))
        case _:
            about = bytearray(_zipped(members))
            # The fields of a member's header: version, flags, method, sizes.
            for mark in (b"PK\x03\x04", b"PK\x01\x02"):
                start = about.find(mark, random_.randrange(len(about)))
                if start >= 0:
                    about[start + 4 + random_.randrange(26)] = random_.randrange(256)
            return bytes(about)
    return _zipped(members)


def _read_model(folder: Path) -> object:
    path = folder / "it.mindgap"
    shutil.move(folder / "file", path)
    return read_model(path, TensorStore(folder / "tensors"))


def _report() -> Report:
    platform = parse("onnxruntime/cpu")
    rows = (
        Row("m", platform, "ok", "discrepant", culprit=OperatorCulprit(("aten.sin.default",), 0, "layer (m.py:3)"),
            blame="platform", detail="wrong", digests=("float32[2]:00",), timings={"judge": 1.0}),
        Row("m", CPU_EAGER, "ok", "identical"),
    )  # fmt: skip
    facts = tuple(PlatformFacts(name, str(name), True) for name in (CPU_EAGER, platform))
    model = Model("m", "0" * 64, 1, 1, ("float32[2]",), ("float32[2]",), "ok", reference_digests=("float32[2]:00",))
    return Report(CPU_EAGER, facts, (model,), rows, created="2026-11-25T00:00:00+00:00", version="0")


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
    made = graph()
    data = encode(made, labels=False)
    case = {"index": 0, "name": "c", "start": 0, "size": len(data), "digest": digest(made), "description": "d",
            "features": ["f"], "nodes": 1, "base": ""}  # fmt: skip
    members = {"campaign.toml": _PLAN.encode(), "blocks/00000.json": _json([case]), "blocks/00000.graphs": data}
    return _zipped({"mindgap-pack.json": _json(_about(members)), **members})


def _about(members: dict[str, bytes]) -> dict[str, Any]:
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}
    return {"format": "mindgap-pack", "version": 1, "cases": 1, "blocks": [0], "sha256": hashes}


def _damaged_bundle(data: bytes, random_: random.Random) -> bytes:
    members = _unzipped(data)
    about = json.loads(members.pop("mindgap-pack.json"))
    name = random_.choice([*members, ""])
    if name.endswith(".json"):
        members[name] = _json(damaged_tree(json.loads(members[name]), random_))
    elif name:
        members[name] = damaged_bytes(members[name], random_)
    else:
        about = damaged_tree(about, random_)
    about = _about(members) if name else about
    return _zipped({"mindgap-pack.json": _json(about), **members})


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


def _make_store(folder: Path) -> bytes:
    """The bytes of a store: its files, packed."""
    made = folder / "made"
    store, report = Store(made), _report()
    with recording(store, RunSettings(), lambda _: {}) as record:
        record.begin(report.created, "0", report.platforms, [row.platform for row in report.rows])
        record.graph("m", graph())
        record.model(0, report.models[0], Outcome(CPU_EAGER, digest(graph()), "ok"))
        for row in report.rows:
            record.row(graph(), row, None)
        record.finish(1.0)
    files = {str(path.relative_to(made)): path.read_bytes() for path in made.rglob("*") if path.is_file()}
    return _zipped(files)


def _damaged_store(data: bytes, random_: random.Random) -> bytes:
    """One file damaged, renamed or moved. Damage to rows keeps the digest in a segment's name right."""
    import xxhash

    files = _unzipped(data)
    name = random_.choice(list(files))
    content = files.pop(name)
    folder, _, last = name.rpartition("/")
    match random_.randrange(3):
        case 0:
            last = damaged_bytes(last.encode(), random_).decode("latin-1").replace("/", "_").replace("\0", "_") or "x"
        case 1:
            folder = random_.choice([other.rpartition("/")[0] for other in files] or [folder])
        case _:
            content = damaged_bytes(content, random_)
            parts = last.removesuffix(".parquet").rsplit("-", 1)
            if last.endswith(".parquet"):
                last = f"{parts[0]}-{xxhash.xxh3_128_hexdigest(content)}.parquet"
    return _zipped({**files, f"{folder}/{last}"[:200]: content})


def _read_store(folder: Path) -> object:
    (folder / "store").mkdir()
    for name, content in _unzipped((folder / "file").read_bytes()).items():
        path = folder / "store" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    store = Store(folder / "store", create=False)
    return store.check(), report_of(store).to_json()


def _make_segment(folder: Path) -> bytes:
    """The bytes of the segment of verdicts."""
    files = _unzipped(_make_store(folder))
    return next(data for name, data in files.items() if name.startswith(folder_of(TABLES["verdicts"])))


def _read_segment(folder: Path) -> object:
    """Checks a segment as a store does before it is queried. Its name holds the digest of what is there."""
    data = (folder / "file").read_bytes()
    name = segment_name(TABLES["verdicts"], data, 1, "0" * 8)
    (folder / name).parent.mkdir(parents=True)
    shutil.move(folder / "file", folder / name)
    return check_segment(LocalLocation(folder), name, TABLES["verdicts"])


def _make_tflite(folder: Path) -> bytes:
    """Integers through a convolution, a reshape, a product, a softmax and a mean."""
    from corpus.tflite_models.tflite_writer import FileNode, FileTensor, constant, model_bytes

    tensors = [
        FileTensor("x", (1, 4, 4, 2), "int8", scale=0.05, zero=-3),
        constant("w", np.ones((3, 3, 3, 2), np.int8), scale=0.1),
        FileTensor("y", (1, 2, 2, 3), "int8", scale=0.4, zero=7), constant("to", np.int32([1, 12])),
        FileTensor("f", (1, 12), "int8", scale=0.4, zero=7), FileTensor("d", (1, 12)),
        constant("m", np.ones((5, 12), np.float32)), FileTensor("z", (1, 5)), FileTensor("p", (1, 5)),
        constant("axis", np.int32([1])), FileTensor("mean", (1,)),
    ]  # fmt: skip
    nodes = [
        FileNode("CONV_2D", ["x", "w"], ["y"], {0: ("b", 0), 1: ("i", 2), 2: ("i", 2), 3: ("b", 1)}),
        FileNode("RESHAPE", ["y", "to"], ["f"]), FileNode("DEQUANTIZE", ["f"], ["d"]),
        FileNode("FULLY_CONNECTED", ["d", "m"], ["z"], {0: ("b", 0)}),
        FileNode("SOFTMAX", ["z"], ["p"], {0: ("f", 1.0)}),
        FileNode("MEAN", ["p", "axis"], ["mean"], {0: ("?", False)}),
    ]  # fmt: skip
    return model_bytes(tensors, nodes, ["x"], ["p", "mean"])


def _damaged_numbers(data: bytes, random_: random.Random) -> bytes:
    """Numbers of 32 bits replaced: by small ones, by others of the file, by the limits of their type."""
    found = bytearray(data)
    for _ in range(random_.randint(1, 3)):
        at, other = (4 * random_.randrange(len(found) // 4) for _ in range(2))
        limits = (0, 1, -1, 2, 7, 33, 127, 1 << 20, (1 << 31) - 1, -(1 << 31), len(found))
        near = int.from_bytes(found[at : at + 4], "little", signed=True) + random_.choice((-4, -1, 1, 4))
        number = random_.choice((random_.choice(limits), near)) & 0xFFFFFFFF
        found[at : at + 4] = found[other : other + 4] if random_.random() < 0.3 else number.to_bytes(4, "little")
    return bytes(found)


def _read_tflite(folder: Path) -> object:
    from mindgap.models.corpus import open_source
    from mindgap.models.corpus.translated_model import checked_before

    path = folder / "file.tflite"
    shutil.move(folder / "file", path)
    with checked_before(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return open_source(str(path))[0].make()


FORMATS = {
    each.name: each
    for each in (
        Format("model", _make_model, _damaged_members, _read_model),
        Format("graph", model_with_everything, damaged_graph(damaged_bytes), _read_model),
        Format("report", lambda _: _report().to_json().encode(), _damaged_json, _read_report),
        Format("machine", _make_machine, _damaged_machine, lambda folder: read_machine(folder / "file")),
        Format("bundle", _make_bundle, _damaged_bundle, _read_bundle),
        Format("ledger", lambda _: _LEDGER.encode(), _damaged_ledger, _read_ledger),
        Format("baseline", _make_baseline, _damaged_json, lambda folder: Baseline.load(folder / "file")),
        Format("segment", _make_segment, damaged_bytes, _read_segment),
        Format("tflite", _make_tflite, _damaged_numbers, _read_tflite),
        Format("store", _make_store, _damaged_store, _read_store),
        Format("rows", _make_store, damaged_rows(damaged_tree), _read_store),
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
        whole = each.make(made)
        _read_one(each, whole, Path(name), 0, found)
        assert found.read == 1, f"the whole {each.name} file cannot be read: {found}"
        found.outside.clear()  # the first reader may make a cache at home
        for count in range(first, first + number):
            random_ = random.Random(count)
            data = damaged_bytes(whole, random_) if _by_bytes(each, random_) else each.damaged(whole, random_)
            _read_one(each, data, Path(name), count, found)
    found.read -= 1
    return found


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


def _read_one(each: Format, data: bytes, root: Path, count: int, found: Found) -> None:
    outside = Path("/tmp/outside")
    folder = root / "inner" / "read"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(data)
    before = _listed(root, folder)
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
    if _listed(root, folder) != before or outside.exists():
        found.outside.append(count)
    shutil.rmtree(root / "inner")


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
