"""Counts what each front end of a runtime supports, and where two front ends of one runtime give different results.

    python benchmarks/front_ends.py CATALOGUE [--per 1] [--every 1] [--samples-only] [--json rows.json]

Runs operator and module samples of a catalogue (`mindgap corpus build CATALOGUE 'ops:*' 'modules:*'`), and a few
models, on OpenVINO through its PyTorch front end and through ONNX, and on ONNX Runtime through mindgap's own export and
through `torch.onnx.export`. `--per`: samples of each operator; `--every`: one sample in so many.

Outputs are compared with `cpu/eager` and between the two front ends, by class:
`equal` the same dtype, shape and bits (any NaN equals any NaN); `near` no element further off than 64 units in the last
place of the largest element of the output, and NaN and infinities at the same positions; `far` anything else.
mindgap's verdicts are not used. Units are of the declared dtype.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "mindgap"))

from mindgap.graph import Graph, TensorStore
from mindgap.graph_capture import capture
from mindgap.results.catalogue import Catalogue
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool
from platforms.onnx_graphs import MODELS

REFERENCE = "cpu/eager"
PAIRS = (
    ("openvino/cpu@frontend=pytorch,precision=f32,threads=1", "openvino/cpu@frontend=onnx,precision=f32,threads=1"),
    ("onnxruntime/cpu@export=official,threads=1", "onnxruntime/cpu@export=direct,threads=1"),
)
PLATFORMS = tuple(platform for pair in PAIRS for platform in pair)
UNITS = 64
DEADLINE_S = 120.0


def main() -> int:
    """Runs every sample on every platform and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("catalogue", type=Path)
    parser.add_argument("--per", type=int, default=1, help="samples of each operator")
    parser.add_argument("--every", type=int, default=1, help="one sample in so many")
    parser.add_argument("--samples-only", action="store_true", help="without the models")
    parser.add_argument("--json", type=Path, help="write a row for each sample here, as it is done")
    chosen = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as directory:
        store = TensorStore(directory)
        made = [*samples(Catalogue(chosen.catalogue), chosen.per)][:: chosen.every]
        with WorkerPool((REFERENCE, *PLATFORMS), tensors=store) as pool:
            for name, graph in (*made, *(() if chosen.samples_only else models(store))):
                row = compared(name, [pool.run(job(graph, platform)) for platform in (REFERENCE, *PLATFORMS)])
                rows += [row] if row else []
                if row and chosen.json:
                    with chosen.json.open("a") as file:
                        file.write(json.dumps(row) + "\n")
    tables(rows)
    return 0


def samples(catalogue: Catalogue, per: int) -> Iterator[tuple[str, Graph]]:
    """The first samples of each operator and module, none twice."""
    taken: Counter[str] = Counter()
    seen: set[str] = set()
    for entry in catalogue.entries("pass = 'forward' AND status = 'captured'"):
        name = entry.source.partition("#")[0]
        if taken[name] < per and entry.holder not in seen:
            taken[name] += 1
            seen.add(entry.holder)
            yield entry.source, catalogue.graph(entry)


def models(store: TensorStore) -> Iterator[tuple[str, Graph]]:
    for name, make in MODELS.items():
        program, example = make()
        yield f"model:{name}", capture(program, (example,), tensors=store)


def job(graph: Graph, platform: str) -> Job:
    return Job(platform, graph, want="outputs", deadline_s=DEADLINE_S)


def compared(name: str, outcomes: Sequence[Outcome]) -> dict[str, Any] | None:
    """A row: what became of the sample on each platform. None where the reference did not run."""
    reference, *others = outcomes
    if not reference.ran:
        return None
    found = dict(zip(PLATFORMS, others, strict=True))
    row: dict[str, Any] = {"sample": name}
    for platform, outcome in found.items():
        row[platform] = {
            "status": outcome.status,
            "became": became(outcome),
            "op": outcome.op,
            "eager": nearness(outcome.arrays, reference.arrays) if outcome.ran else "",
            "message": outcome.message[-1000:],
        }
    for one, other in PAIRS:
        both = found[one].ran and found[other].ran
        row[f"{one} | {other}"] = nearness(found[one].arrays, found[other].arrays) if both else ""
    return row


def became(outcome: Outcome) -> str:
    return "runs" if outcome.ran else "refused" if outcome.status == "unsupported" else "failed"


def nearness(found: Sequence[Any] | None, expected: Sequence[Any] | None) -> str:
    """The worst class over all outputs."""
    classes = {_nearness(a, b) for a, b in zip(found or (), expected or (), strict=True)}
    return next((word for word in ("far", "near") if word in classes), "equal")


def _nearness(found: Any, expected: Any) -> str:
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return "far"
    kind = found.dtype.type(0).real.dtype if found.dtype.kind == "c" else found.dtype
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    exact = found.dtype.kind in "iub"
    if exact:
        return "equal" if np.array_equal(found, expected) else "far"
    left, right = found.astype(wide), expected.astype(wide)
    nan = np.isnan(left)
    if (nan != np.isnan(right)).any():
        return "far"
    if np.array_equal(left[~nan], right[~nan]):
        return "equal"
    finite = np.isfinite(left) & np.isfinite(right)
    rest = ~finite & ~nan
    unit = float(ml_dtypes.finfo(kind).eps) * float(np.abs(right[finite]).max(initial=0.0))
    near = np.array_equal(left[rest], right[rest]) and (np.abs(left[finite] - right[finite]) <= UNITS * unit).all()
    return "near" if near else "far"


def tables(rows: Sequence[dict[str, Any]]) -> None:
    """Prints the counts, and the samples on which the two ways into one runtime part."""
    print(f"{len(rows)} samples that {REFERENCE} runs\n")
    print("| platform | runs | refused | failed | equal to eager | near | far |\n|---|---|---|---|---|---|---|")
    for platform in PLATFORMS:
        states = Counter(row[platform]["became"] for row in rows)
        classes = Counter(row[platform]["eager"] for row in rows)
        print(f"| `{platform}` | {states['runs']} | {states['refused']} | {states['failed']} | {classes['equal']} | "
              f"{classes['near']} | {classes['far']} |")  # fmt: skip
    print("\n| the first against the second | both run | equal | near | far | the first only | the second only |")
    print("|---|---|---|---|---|---|---|")
    for one, other in PAIRS:
        classes = Counter(row[f"{one} | {other}"] for row in rows)
        alone = [sum(row[a]["became"] == "runs" != row[b]["became"] for row in rows) for a, b in turns(one, other)]
        both = sum(classes.values()) - classes[""]
        print(f"| `{one}` and `{other}` | {both} | {classes['equal']} | {classes['near']} | {classes['far']} | "
              f"{alone[0]} | {alone[1]} |")  # fmt: skip
    for one, other in PAIRS:
        print(f"\nfar apart, {one} and {other}:")
        for row in rows:
            if row[f"{one} | {other}"] == "far":
                print(f"  {row['sample']}: from eager {row[one]['eager']} and {row[other]['eager']}")
    for platform in PLATFORMS:
        print(f"\nfailed, {platform}:")
        for row in rows:
            if row[platform]["became"] == "failed":
                said = [line for line in row[platform]["message"].splitlines() if line.strip()]
                print(f"  {row['sample']}: {row[platform]['status']}: {' / '.join(said)[:200]}")


def turns(one: str, other: str) -> tuple[tuple[str, str], ...]:
    return (one, other), (other, one)


if __name__ == "__main__":
    raise SystemExit(main())
