"""Buffered rows arrive whole, in time, and as many as promised, whatever happens to the process."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mindgap.results.store import Store, StoreError
from results.store.store_rows import outcome

#: The folder that the helpers are imported from.
TESTS = str(Path(__file__).parents[2])
#: Writes rows 0, 1, 2 … of run WRITER, and says on standard output what is surely published.
WRITING = """
import sys
from mindgap.results.store import Store
from results.store.store_rows import outcome

path, run, batch = sys.argv[1], sys.argv[2], int(sys.argv[3])
writer = Store(path).writer(rows=batch, age_s=60.0)
print("ready", flush=True)
for number in range(1_000_000):
    writer.append("outcomes", outcome(number, run=run))
    if number % batch == batch - 1:
        print(number + 1, flush=True)
"""


def count(store: Store) -> int:
    return store.rows("SELECT count(*) AS n FROM outcomes")[0]["n"]


def files(path: Path) -> list[Path]:
    return sorted(path.glob("tables/*/*.parquet"))


def writing(path: Path, run: str, batch: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": TESTS}
    command = [sys.executable, "-c", WRITING, str(path), run, str(batch)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def test_a_writer_publishes_by_count_by_bytes_and_on_close(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.writer(rows=10, nbytes=100_000, age_s=600) as writer:
        writer.append("outcomes", [outcome(number) for number in range(9)])
        assert count(store) == 0
        writer.append("outcomes", outcome(9))
        assert count(store) == 10 and len(files(tmp_path)) == 1
        writer.append("outcomes", outcome(10, message="x" * 200_000))
        assert count(store) == 11
        writer.append("outcomes", outcome(11))
    assert count(store) == 12 and len(files(tmp_path)) == 3
    with pytest.raises(StoreError, match="closed"):
        writer.append("outcomes", outcome(12))


def test_a_quiet_writer_publishes_when_its_rows_are_old(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.writer(age_s=0.2) as writer:
        writer.append("outcomes", outcome(1))
        deadline = time.monotonic() + 20
        while not count(store) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert count(store) == 1


def test_a_wrong_row_costs_itself_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    writer = store.writer()
    for wrong, why in (
        ({"run": "r"}, "needs model: its key is run, model, graph, platform"),
        (outcome(1, speed=3), "no column speed"),
    ):
        with pytest.raises(StoreError, match=why):
            writer.append("outcomes", wrong)
    with pytest.raises(StoreError, match="no table 'outcome'"):
        writer.append("outcome", outcome(1))
    writer.append("outcomes", [outcome(1), outcome(2, timings={"run": "long"}), outcome(3)])
    with pytest.raises(StoreError, match="outcomes, column timings holds map<string, double>"):
        writer.close()
    assert [row["graph"][-1] for row in store.rows("SELECT graph FROM outcomes ORDER BY graph")] == ["1", "3"]


def test_a_verdict_is_never_seen_before_its_outcome(tmp_path: Path) -> None:
    store = Store(tmp_path)
    verdict = {"run": "r", "model": "", "graph": "g", "platform": "p", "reference": "q", "verdict": "identical"}
    with store.writer(rows=2) as writer:
        writer.append("verdicts", verdict)
        writer.append("outcomes", outcome(1))
        names = [path.parent.name for path in sorted(files(tmp_path), key=lambda path: path.stat().st_mtime_ns)]
        assert names == ["outcomes", "verdicts"]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2))])
def test_killing_writers_loses_no_more_than_they_had_buffered(tmp_path: Path, seed: int) -> None:
    """Two processes are killed in the middle of whatever they do, five times over, into one store."""
    chance = random.Random(seed)
    batch = chance.choice([1, 7, 50])
    surely: dict[str, int] = {}
    for turn in range(3):
        writers = {f"{turn}-{number}": writing(tmp_path, f"{turn}-{number}", batch) for number in range(2)}
        for writer in writers.values():
            assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0.0, 0.4))
        for run, writer in writers.items():
            os.kill(writer.pid, signal.SIGKILL)
            said = writer.communicate()[0].split()
            surely[run] = int(said[-1]) if said else 0
    store = Store(tmp_path)
    found = store.rows("SELECT run, count(*) AS n, max(graph) AS last FROM outcomes GROUP BY run")
    have = {row["run"]: row["n"] for row in found}
    for run, at_least in surely.items():
        # One more batch may have been published and not yet said.
        assert at_least <= have.get(run, 0) <= at_least + batch
    # No gaps: what was lost is the end.
    assert all(int(row["last"], 16) == row["n"] - 1 for row in found)
    assert store.check() == [] and not list(tmp_path.rglob(".tmp-*"))


def test_many_processes_write_at_once(tmp_path: Path) -> None:
    code = "def go(path, run):\n    with Store(path).writer(rows=13) as w:\n        "
    code += "[w.append('outcomes', outcome(n, run=run)) for n in range(200)]\n"
    imports = "import sys\nfrom mindgap.results.store import Store\nfrom results.store.store_rows import outcome\n"
    code = f"{imports}{code}go(*sys.argv[1:])"
    environment = {**os.environ, "PYTHONPATH": TESTS}
    command = [sys.executable, "-c", code, str(tmp_path / "s")]
    writers = [subprocess.Popen([*command, f"w{number}"], env=environment) for number in range(3)]
    assert [writer.wait(120) for writer in writers] == [0] * 3
    assert count(Store(tmp_path / "s", create=False)) == 600


def test_a_full_disk_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    """The limit on a file's size stands for the disk's: the write fails in the middle."""
    store = Store(tmp_path)
    store.append("outcomes", outcome(0))
    writer = store.writer(rows=1000, age_s=600)
    writer.append("outcomes", [outcome(number) for number in range(1, 400)])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(StoreError, match=r"\.parquet cannot be written.*published before is intact: make room"):
            writer.flush()
        with pytest.raises(StoreError, match="cannot be written"):
            writer.append("outcomes", outcome(400))
        with pytest.raises(StoreError, match="cannot be written"):
            writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert count(store) == 1 and not list(tmp_path.rglob(".tmp-*"))
    writer.append("outcomes", outcome(400))
    writer.close()
    assert count(store) == 401


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """A filesystem of 64 KiB in a namespace of its own, where this machine allows one."""
    code = (
        "import os\n"
        "from mindgap.results.store import Store\n"
        "store = Store('s')\n"
        "try:\n"
        "    for n in range(100):\n"
        "        noise = os.urandom(4000).hex()\n"
        "        store.append('refused', {'run': 'r', 'source': str(n), 'position': n, 'reason': noise})\n"
        "except Exception as error:\n"
        "    kept = store.rows('SELECT count(*) AS n FROM refused')[0]['n']\n"
        "    print(type(error).__name__, kept == n, error)\n"
    )
    script = f'mkdir full && mount -t tmpfs -o size=64k none full && cd full && exec {sys.executable} -c "$CODE"'
    ran = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "CODE": code},
        capture_output=True,
        text=True,
        check=False,
    )
    if "mount" in ran.stderr or "unshare" in ran.stderr:
        pytest.skip(f"no filesystem can be mounted here: {ran.stderr.strip()}")
    assert ran.stdout.startswith("StoreError True "), ran
    assert "No space left on device" in ran.stdout and "make room" in ran.stdout
