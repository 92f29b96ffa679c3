"""Runs the stand-alone script of every drawn row: the user's own path, in a process that does not import mindgap.

    python benchmarks/wild/measure.py CAMPAIGN DIR [-j 2]

Reads `DIR/sample.csv`, writes `DIR/scripts/NAME.py` (`script/`: eager, float64 and the platform, without mindgap) and
`DIR/measured/NAME.json` (the line of JSON that the script ends with). Rows that are measured already are skipped, so it
can be killed and started again. Exits 1 if a script could not be made, or imported mindgap, or gave no JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mindgap.findings.script.culprit_script import script_platform_of
from mindgap.graph import Graph, MindgapError, default_tensor_store, materialise_all
from mindgap_campaign.campaign.results import case_file
from mindgap_campaign.campaign.results.findings import rows_of_case
from mindgap_campaign.campaign.state.directory import open_directory

sys.path.insert(0, str(Path(__file__).parent))
from draw import Drawn, read_sample
from script.rendering import render

#: Seconds that one script may take, all of its runs together.
TIMEOUT_S = 300
SIDES = ("platform", "reference")
#: A process in which mindgap cannot be imported, and which runs one script after the other: a path a line on standard
#: input, the script's JSON a line on standard output. The runtimes are imported once.
_SERVER = """
import json, os, runpy, sys
sys.modules["mindgap"] = None
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    space = runpy.run_path(line.strip())
    found, _ = space["both_sides"](space["CASE"], in_process=True)
    out.write(json.dumps(space["strict"](found), allow_nan=False) + "\\n")
    out.flush()
"""
#: One script in a process of its own, in which mindgap cannot be imported: for those that end the server.
_ALONE = (
    "import runpy, sys; sys.modules['mindgap'] = None; sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


def main() -> int:
    """Makes and runs the scripts; prints what could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("campaign", type=Path)
    parser.add_argument("dir", type=Path)
    parser.add_argument("-j", "--jobs", type=int, default=2)
    chosen = parser.parse_args()
    (chosen.dir / "scripts").mkdir(exist_ok=True)
    (chosen.dir / "measured").mkdir(exist_ok=True)
    rows = [row for row in read_sample(chosen.dir / "sample.csv") if not answer_of(chosen.dir, row).exists()]
    write_scripts(chosen.campaign, chosen.dir, rows)
    servers = [Server() for _ in range(chosen.jobs)]
    with ThreadPoolExecutor(chosen.jobs) as pool:
        shares = pool.map(lambda n: [measured(chosen.dir, row, servers[n]) for row in rows[n :: chosen.jobs]],
                          range(chosen.jobs))  # fmt: skip
        failed = [line for share in shares for line in share if line]
    for server in servers:
        server.stop()
    for line in failed:
        print(line)
    print(f"{len(rows) - len(failed)} of {len(rows)} measured")
    return 1 if failed else 0


def name_of(row: Drawn) -> str:
    """A file's name for a row."""
    return f"{row.case}-" + "".join(c if c.isalnum() else "_" for c in row.platform)


def script_of(folder: Path, row: Drawn) -> Path:
    """Where the row's script stands."""
    return folder / "scripts" / f"{name_of(row)}.py"


def answer_of(folder: Path, row: Drawn) -> Path:
    """Where what the script measured stands."""
    return folder / "measured" / f"{name_of(row)}.json"


def write_scripts(campaign: Path, folder: Path, rows: list[Drawn]) -> None:
    """The scripts that are not there yet."""
    opened = open_directory(campaign)
    for row in rows:
        path = script_of(folder, row)
        if path.exists():
            continue
        try:
            found = rows_of_case(opened, row.case, row.platform)[0]
            graph = case_file.graph_of(opened, found)
            platform, reference = (script_platform_of(case_file.platform_of(opened, found, side)) for side in SIDES)
            script = render(
                graph, materialise_all(graph, default_tensor_store()), platform, reference, name=row.case,
                culprit=culprit_of(found, graph), beside=f"{path.stem}.npz",
            )  # fmt: skip
        except MindgapError as error:
            print(f"{path.stem}: no script: {error}")
            continue
        for name, data in script.files.items():
            (path.parent / name).write_bytes(data)
        path.write_text(script.text)


def culprit_of(row: Mapping[str, Any], graph: Graph) -> int | None:
    """The culprit node; for a failure, the only node of the operator that the platform named."""
    node = row["culprit_node"]
    if node is not None and 0 <= node < len(graph.nodes):
        return int(node)
    named = [index for index, each in enumerate(graph.nodes) if row["op"] and each.op == row["op"]]
    return named[0] if len(named) == 1 else None


class Server:
    """A process that runs scripts one after the other; started when it is first asked, and again when it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ask(self, script: Path) -> str | None:
        """The line that the script gives, None where the process died or took longer than `TIMEOUT_S`."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-W", "ignore", "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, env=_environment(),
            )  # fmt: skip
        assert self._process.stdin and self._process.stdout
        timer = threading.Timer(TIMEOUT_S, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(f"{script.resolve()}\n")
            self._process.stdin.flush()
            return self._process.stdout.readline() or None
        except BrokenPipeError:
            return None
        finally:
            timer.cancel()

    def stop(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def measured(folder: Path, row: Drawn, server: Server) -> str:
    """Runs one script; returns what went wrong, or nothing."""
    path = script_of(folder, row)
    if not path.exists():
        return f"{path.stem}: no script"
    # A script that crashes its process is run again with a process for each side, which says which of them crashes.
    answer = None if row.status == "crash" else server.ask(path)
    try:
        found = json.loads(answer or _alone(path))
    except subprocess.TimeoutExpired:
        return f"{path.stem}: not done after {TIMEOUT_S} s"
    except (json.JSONDecodeError, IndexError):
        return f"{path.stem}: no JSON"
    answer_of(folder, row).write_text(json.dumps(found))
    return ""


def _alone(script: Path) -> str:
    """The last line that a script prints in a process of its own. Raises `IndexError` where it prints none."""
    command = [sys.executable, "-I", "-c", _ALONE, str(script.resolve()), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=_environment())
    return done.stdout.strip().splitlines()[-1]


if __name__ == "__main__":
    raise SystemExit(main())
