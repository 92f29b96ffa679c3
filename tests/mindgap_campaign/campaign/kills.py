"""Campaigns that are killed, and what must not depend on it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from mindgap.results.store import TABLES, Store
from mindgap.results.store.tables import STAMP

HERE = Path(__file__).parent

ROW = "run, model, graph, platform, reference"
#: What a disturbed campaign shares with an undisturbed one. Left out of a table: moments, seconds, the sessions in the
#: settings of a run, and the words and numbers of a row's detail, which may tell seconds. A cluster's
#: driver lists no platforms that ran nothing.
SAME = {
    "runs": "SELECT run, kind, version, reference FROM runs ORDER BY ALL",
    "platforms": (
        "SELECT run, platform, fingerprint, backend, available, reason, hardware, versions, options FROM platforms "
        "WHERE fingerprint <> '' ORDER BY ALL"
    ),
    "models": "SELECT run, model, position, graph, nodes, operators, inputs, outputs FROM models ORDER BY ALL",
    "graphs": ("SELECT graph, structure, name, source, nodes, operators, variant, tensors FROM graphs ORDER BY ALL"),
    "delegations": "SELECT run, model, graph, platform, delegate, ran, gave_back FROM delegations ORDER BY ALL",
    "support": "SELECT fingerprint, platform, op, dtype, layout, answer, status FROM support ORDER BY ALL",
    "outcomes": (
        "SELECT run, model, graph, platform, fingerprint, status, op, signature, "
        "list_transform(outputs, lambda o: o.digest) AS digests FROM outcomes ORDER BY ALL"
    ),
    "verdicts": (
        f"SELECT {ROW}, status, verdict, word, blame, culprit_node, culprit_op, culprit_label, max_abs, profiles, "
        "nodes, broken, origin FROM verdicts ORDER BY ALL"
    ),
    "weaknesses": f"SELECT {ROW}, weaknesses FROM weaknesses ORDER BY ALL",
    "contradictions": f"SELECT {ROW}, contradictions FROM contradictions ORDER BY ALL",
    "decisions": f"SELECT {ROW}, decisions FROM decisions ORDER BY ALL",
    "faults": f"SELECT {ROW}, faults FROM faults ORDER BY ALL",
    "blocks": (
        "SELECT run, block, cases, features, given, refused, found, seconds IS NULL AS open FROM blocks ORDER BY block"
    ),
}


#: Tables that are not compared, and why.
LEFT_OUT = {
    "expenses": "processor time, of each session",
    **dict.fromkeys(("captures", "asked"), "of a catalogue"),
    **dict.fromkeys(("agreement", "answers", "own_paths", "refused"), "of other commands than `campaign`"),
    **dict.fromkeys(("tasks", "truths", "predictions", "near_ties", "flips"), "of `mindgap task`"),
}
#: Tables whose rows one block has: the others are written by each session, or by each block that has the graph.
OF_BLOCKS = (
    "models", "outcomes", "verdicts", "blocks", "delegations", "weaknesses", "contradictions", "decisions", "faults",
)  # fmt: skip


@dataclass
class Sessions:
    """A campaign of `count` cases in `directory`, driven by processes."""

    directory: Path
    count: int
    reference: str
    platforms: Sequence[str]

    def start(self, what: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(HERE / "driver.py"), what, str(self.directory), str(self.count), self.reference]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1",
                       "MINDGAP_HOME": str(self.directory.parent / "home")}  # fmt: skip
        return subprocess.Popen([*command, *self.platforms], env=environment, stderr=subprocess.PIPE)

    def finish(self, what: str) -> float:
        """Runs to the end; seconds that took."""
        started = time.monotonic()
        process = self.start(what)
        _, said = process.communicate()
        assert process.returncode == 0, said.decode()
        return time.monotonic() - started

    def kill_driver(self, after_s: float, what: str = "resume") -> bool:
        """Whether it still ran then."""
        process = self.start(what)
        try:
            process.communicate(timeout=after_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return True
        return False

    def kill_worker(self, after_s: float, rng: random.Random, what: str = "resume") -> str:
        """Kills one of the processes that the driver started, and waits for the end; says which."""
        process = self.start(what)
        time.sleep(after_s)
        killed = ""
        try:
            below = psutil.Process(process.pid).children(recursive=True)
            # Forked workers are the fork server's. A compiler that is killed is no dead worker.
            workers = [each for each in below if any(part.startswith("mindgap.") for part in each.cmdline())]
        except psutil.NoSuchProcess:
            workers = []
        if workers:
            worker = rng.choice(sorted(workers, key=lambda each: each.pid))
            try:
                killed = " ".join(worker.cmdline()[3:6])
                worker.kill()
            except psutil.NoSuchProcess:
                killed = ""
        _, said = process.communicate()
        assert process.returncode == 0, said.decode()
        return killed


def contents(directory: Path) -> dict[str, list[dict[str, Any]]]:
    """What must be the same, table by table."""
    store = Store(directory, create=False)
    return {table: store.rows(sql) for table, sql in SAME.items()}


def written_twice(directory: Path) -> list[str]:
    """A line for each key that was written more than once, which views show once. Reads the Parquet files; a row that
    two compactions copied has one stamp."""
    found: list[str] = []
    for table in OF_BLOCKS:
        stamps: dict[tuple[Any, ...], set[tuple[Any, ...]]] = {}
        for file in sorted((directory / "tables" / table).glob("*.parquet")):
            for row in pq.read_table(file, columns=[*TABLES[table].key, *STAMP]).to_pylist():
                key = tuple(row[column] for column in TABLES[table].key)
                stamps.setdefault(key, set()).add(tuple(row[column] for column in STAMP))
        found += [f"{table}: {key} was written {len(each)} times" for key, each in stamps.items() if len(each) > 1]
    return found


def differences(one: dict[str, list[dict[str, Any]]], other: dict[str, list[dict[str, Any]]]) -> list[str]:
    """A line for each row that only one of them has; none where all is well."""
    found: list[str] = []
    for table, rows in one.items():
        mine, theirs = [repr(row) for row in rows], [repr(row) for row in other[table]]
        found += [f"{table}: only here: {row}" for row in mine if row not in set(theirs)]
        found += [f"{table}: only there: {row}" for row in theirs if row not in set(mine)]
    return found
