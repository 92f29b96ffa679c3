"""Makes the probes of the installed PyTorch once, and keeps them in one file."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow has no types)

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mindgap.graph import MindgapError
from mindgap.graph.tensors import home
from mindgap.platforms.name import CPU_EAGER
from mindgap.results.catalogue import Catalogue
from mindgap.results.store.location import LocalLocation
from mindgap.run.extensions import service
from mindgap.run.pool import WorkerPool
from mindgap_surveys.support.probes import CallProbe, OnProgress, probes

#: Raised when other probes would be made of the same samples.
FORMAT: Final = 3
REFERENCE: Final = CPU_EAGER
#: What is captured where no catalogue is given: PyTorch's own samples, forward and backward.
SOURCES: Final = ("ops:*", "modules:*")
#: Asks for the path that values decide, in a source. What refuses a program that needs it names the option.
PATH_TAKEN: Final = "path_taken=1"
_BY_PATH: Final = "--path-taken"
_FAILED: Final = "status = 'failed' AND pass = 'forward' AND reason LIKE ?"
_COLUMNS: Final = ("op", "dtype", "layout", "graph")
#: Of the capture of one sample: processor seconds and bytes.
_LIMITS: Final = {"cpu_seconds": 60.0, "memory_bytes": 4 << 30}


def probe_set(
    catalogue: Catalogue | None = None,
    *,
    folder: Path | None = None,
    on_progress: OnProgress = lambda done, total, what: None,
    deadline: float | None = None,
    on_left: Callable[[int], None] = lambda left: None,
) -> list[CallProbe]:
    """The probes of a catalogue's graphs, or of PyTorch's samples where none is given, sorted by their keys.

    Read from a file of `folder` (by default under `home`) where they were made before with this PyTorch and of the same
    graphs; otherwise made, which takes some minutes of processor time without a catalogue and less than one with it.
    `deadline`: of `time.monotonic`; half of the time until then is for capturing, and a quarter for cutting.
    What is not made by then is left out, `on_left` gets the number of sources and operators, and another call goes on.
    Raises `MindgapError` where there is no sample at all.
    """
    folder = home() / "probes" if folder is None else folder
    name = f"torch-{version('torch')}-{_identity(catalogue)}.parquet"
    file = folder / name
    if file.is_file() and (probes_read := _read(file)) is not None:
        return probes_read
    folder.mkdir(parents=True, exist_ok=True)
    graphs, left = (catalogue, 0) if catalogue is not None else _samples(folder, on_progress, _part(deadline, 1 / 2))
    stopped: list[int] = []
    with WorkerPool([REFERENCE], tensors=graphs.tensors, busy=1) as pool:
        made = list(probes(graphs, pool.run, REFERENCE, on_progress, _part(deadline, 1 / 2), stopped.append))
    if not made and (left or stopped):
        raise MindgapError(
            "the budget ended before the samples of one operator were made, which are made once for each version of "
            "PyTorch and take some minutes: run the command again, which goes on from there, or raise --budget"
        )
    if not made:
        where = "PyTorch's samples" if catalogue is None else str(catalogue.path)
        raise MindgapError(
            f"{where} hold no operator that {REFERENCE} runs: capture some (mindgap corpus build DIR 'ops:*')"
        )
    if left or stopped:
        on_left(left + sum(stopped))
    else:
        _write(folder, name, made)
    return made


class _OutOfTime(Exception):
    """Ends a build of the catalogue of samples, which another call continues."""


def _part(deadline: float | None, share: float) -> float:
    """Returns the time of `time.monotonic` at which a share of the time until a deadline is over."""
    now = time.monotonic()
    return math.inf if deadline is None else now + share * (deadline - now)


def _samples(folder: Path, on_progress: OnProgress, until: float) -> tuple[Catalogue, int]:
    """Builds the catalogue of PyTorch's samples next to the probes, or continues a build that was ended. Returns also
    how many sources are left."""
    left = 0
    samples = Catalogue(folder / f"samples-{version('torch')}-{version('mindgap')}", create=True)

    def on_tick(tick: Any) -> None:
        nonlocal left
        on_progress(tick.done, tick.total, tick.source)
        left = tick.total - tick.done
        if left and time.monotonic() > until:
            raise _OutOfTime

    try:
        _build(samples, on_tick)
    except _OutOfTime:
        return samples, left
    return samples, 0


def _build(found: Catalogue, on_tick: Callable[[Any], None]) -> None:
    builder = service("catalogue")
    limits = builder.ModelLimits(**_LIMITS)
    builder.build(found, SOURCES, ("forward", "backward"), limits=limits, on_tick=on_tick)
    # What returns a size or a branch that depends on data (`nonzero`, `unique`) is captured along the path of its data.
    by_values = {
        f"{entry.source.partition('#')[0]}?{PATH_TAKEN}" for entry in found.entries(_FAILED, [f"%{_BY_PATH}%"])
    }
    if by_values:
        builder.build(found, sorted(by_values), limits=limits, on_tick=on_tick)


def _identity(catalogue: Catalogue | None) -> str:
    """Returns a digest of the probes' graphs."""
    of = ["samples", version("mindgap")]
    if catalogue is not None:
        of = sorted({entry.holder for entry in catalogue.entries("status = 'captured'")})
    return hashlib.sha256(f"{FORMAT} {' '.join(of)}".encode()).hexdigest()[:16]


def _read(file: Path) -> list[CallProbe] | None:
    """Reads the probes in a file; None if it is damaged, so that it is made again."""
    try:
        table = pq.read_table(file, columns=list(_COLUMNS))
    except (pa.ArrowException, OSError):
        return None
    columns = [table.column(name).to_pylist() for name in _COLUMNS]
    return [CallProbe(*row) for row in zip(*columns, strict=True)]


def _write(folder: Path, name: str, made: list[CallProbe]) -> None:
    rows = [[one.op for one in made], [one.dtype for one in made], [one.layout for one in made]]
    table = pa.table([*rows, pa.array([one.data for one in made], pa.binary())], names=list(_COLUMNS))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    LocalLocation(folder).publish(name, sink.getvalue().to_pybytes())
