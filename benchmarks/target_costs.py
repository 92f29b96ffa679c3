"""Measures what targets that are not on this machine cost: `python benchmarks/target_costs.py [PLATFORM…]`.

    created    `--create`: seconds of `mindgap env create RECIPE` in a fresh MINDGAP_HOME, and its size on disk
    diff       wall and processor seconds of `mindgap diff examples/my_model.py:make -p PLATFORM --repeat N`, in a new
               process, those of its workers included; and the verdict
    slow-down  seconds of one warm run (the median of those after the first) over those of `cpu/eager` in that command
    rows/s     `--campaign STORE`: rows that the campaign has for the platform over the processor seconds of its workers
               for them; refusals count as rows, judging and starting do not count as seconds

It prints one Markdown table. All seconds depend on the machine and its other load; compare the rows of one call.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindgap.results.store import Store
from mindgap_studies import records
from mindgap_studies.gap import gap

ROOT = Path(__file__).parents[1]
#: Platforms with the arguments of `mindgap env create` that make their environment; none: mindgap's own.
TARGETS: dict[str, tuple[str, ...]] = {
    "onnxruntime/qnn": ("qnn",),
    "onnxruntime/qnn@soc=SM8550": ("qnn",),
    "rknn/simulator": ("rknn",),
    "executorch/tosa": ("tosa",),
    "onnxruntime/webgpu@device=swiftshader": ("webgpu",),
    "ortweb/wasm": ("ortweb",),
    "ortweb/webgpu@device=swiftshader": ("ortweb",),
    "ortweb/webgl@device=swiftshader": ("ortweb",),
    "ncnn/vulkan@device=swiftshader,precision=f32": ("ncnn",),
    "iree/vulkan@device=swiftshader": ("iree",),
    "tinygrad/cl": ("tinygrad",),
    "cpu/eager@env=arm64": ("arm64",),
    "openvino/cpu@env=arm64-openvino,precision=f32,threads=1": ("arm64-openvino",),
    "onnxruntime/cpu@threads=1": (),
}
ROWS = """
SELECT platform, count(*) AS rows, sum(timings['cpu']) AS seconds FROM outcomes GROUP BY platform
HAVING sum(timings['cpu']) > 0
"""
ROW = "SELECT word, detail FROM verdicts WHERE platform = ?"
EXECUTION = "SELECT max(description->>'execution') AS execution FROM platforms WHERE platform = ?"


@dataclass(frozen=True)
class Cost:
    """Seconds of one command: `wall`, and `processor` of all processes that it waited for; its exit status."""

    wall: float
    processor: float
    status: int
    said: str


def clocked(*command: str, home: Path | None = None) -> Cost:
    """Runs a command of mindgap in a new process."""
    environment = {**os.environ, **({"MINDGAP_HOME": str(home)} if home else {})}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "mindgap", *command], env=environment, capture_output=True, text=True, check=False
    )
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, processor, done.returncode, done.stdout + done.stderr)


def created(names: tuple[str, ...]) -> str:
    """Makes an environment in a fresh home and deletes it. Returns its seconds and MB on disk."""
    if not names:
        return "–"
    with tempfile.TemporaryDirectory(prefix="target-costs-") as home:
        cost = clocked("env", "create", *names, home=Path(home))
        if cost.status:
            raise SystemExit(f"mindgap env create {' '.join(names)}: status {cost.status}: {cost.said[-500:]}")
        size = sum(each.lstat().st_size for each in Path(home).rglob("*") if each.is_file() and not each.is_symlink())
        return f"{cost.wall:.0f} s, {size / 1e6:,.0f} MB"


def difference(platform: str, repeat: int, scratch: Path) -> list[str]:
    """Returns the cells of `mindgap diff` of the example: execution, seconds, slow-down, verdict."""
    shutil.rmtree(scratch, ignore_errors=True)
    source = f"{ROOT / 'examples' / 'my_model.py'}:make"
    cost = clocked("diff", source, "-p", platform, "--repeat", str(repeat), "--store", str(scratch))
    store = Store(scratch) if scratch.exists() else None
    # Status 2 with a row: the platform refuses the model.
    if store is None or cost.status > 2 or not store.rows(ROW, [platform]):
        raise SystemExit(f"mindgap diff -p {platform}: status {cost.status}: {cost.said[-500:]}")
    (run,) = [row["run"] for row in store.rows("SELECT run FROM runs")]
    timed = {row["platform"]: row["slowdown"] for row in records(gap(store, run).table("model_times"))}
    slower = f"{timed[platform]:,.1f} ×" if platform in timed else "–"
    return [execution(store, platform), f"{cost.wall:.0f} / {cost.processor:.0f}", slower, verdict(store, platform)]


def execution(store: Store, platform: str) -> str:
    (row,) = store.rows(EXECUTION, [platform])
    return row["execution"] or "native"


def verdict(store: Store, platform: str) -> str:
    (row,) = store.rows(ROW, [platform])
    return f"`{row['word']}`"


def campaign_rows(store: Path | None) -> dict[str, str]:
    """Returns the cell of rows per second of each platform of a campaign."""
    rows: list[dict[str, Any]] = Store(store).rows(ROWS) if store else []
    return {row["platform"]: f"{row['rows'] / row['seconds']:.2f}" for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("platforms", nargs="*", default=list(TARGETS), metavar="PLATFORM")
    parser.add_argument("--repeat", type=int, default=5, help="runs on each platform; the first is not counted")
    parser.add_argument("--campaign", type=Path, metavar="STORE")
    parser.add_argument("--create", action="store_true", help="also make each environment in a fresh home")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rates = campaign_rows(asked.campaign)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| platform | execution | created | diff, wall / processor s | slow-down | rows/s | verdict |")
    print("|---|---|---|---|---|---|---|")
    made: dict[tuple[str, ...], str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for platform in asked.platforms:
            names = TARGETS.get(platform, ())
            if names not in made:
                made[names] = created(names) if asked.create else "–"
            how, seconds, slower, word = difference(platform, asked.repeat, Path(scratch) / "store")
            cells = [f"`{platform}`", how, made[names], seconds, slower, rates.get(platform, "–"), word]
            print(f"| {' | '.join(cells)} |", flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
