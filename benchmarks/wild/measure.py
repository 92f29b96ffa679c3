"""Runs the stand-alone script of every drawn row: the user's own path, in a process that does not import mindgap.

    python benchmarks/wild/measure.py CAMPAIGN DIR [-j 2]

Reads `DIR/sample.csv`, writes `DIR/scripts/NAME.py` (what `mindgap campaign show` prints) and `DIR/measured/NAME.json`
(the line of JSON that the script ends with). Rows that are measured already are left alone, so it may be killed and
started again. Exits 1 if a script could not be made, or imported mindgap, or gave no JSON.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mindgap.campaign.found import rows_of_case

from mindgap.campaign import reproduce
from mindgap.campaign.folder import open_folder
from mindgap.graph import MindgapError

sys.path.insert(0, str(Path(__file__).parent))
from draw import Drawn, read_sample

#: Seconds that one script may take, all of its runs together.
TIMEOUT_S = 900
#: Runs a script in a process in which mindgap cannot be imported.
_WITHOUT = (
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
    with ThreadPoolExecutor(chosen.jobs) as pool:
        failed = [line for line in pool.map(lambda row: measured(chosen.dir, row), rows) if line]
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
    """The scripts that are not there yet. One pool of regions is read for all of them."""
    opened = open_folder(campaign)
    reproduce.pool_in = functools.cache(reproduce.pool_in)
    for row in rows:
        path = script_of(folder, row)
        if path.exists():
            continue
        try:
            found = rows_of_case(opened, row.case, row.platform)[0]
            script = reproduce.script_of_row(opened, found, beside=f"{path.stem}.npz")
        except MindgapError as error:
            print(f"{path.stem}: no script: {error}")
            continue
        for name, data in script.files.items():
            (path.parent / name).write_bytes(data)
        path.write_text(script.text)


def measured(folder: Path, row: Drawn) -> str:
    """Runs one script; returns what went wrong, or nothing."""
    path = script_of(folder, row)
    if not path.exists():
        return f"{path.stem}: no script"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, "-I", "-c", _WITHOUT, str(path.resolve()), "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment)
        found = json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        return f"{path.stem}: not done after {TIMEOUT_S} s"
    except (json.JSONDecodeError, IndexError):
        return f"{path.stem}: no JSON: {done.stderr[-400:]}"
    answer_of(folder, row).write_text(json.dumps(found))
    return ""


if __name__ == "__main__":
    raise SystemExit(main())
