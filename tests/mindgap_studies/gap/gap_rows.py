"""Runs in a store, made up at random: every status, word and kind of graph that a campaign can write."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from mindgap.results.store import Store

REFERENCE = "cpu/eager"
PLATFORMS = ("cpu/eager@isa=avx2", "cpu/jit", "cpu/inductor", "gpu/eager", "gpu/compile", "onnxruntime/cpu")
#: What a failure may say, with its status, cause and type.
FAILURES = (
    ("unsupported", "aten.foo.default: not implemented on this device", "unsupported_operator", "unsupported_operator"),
    ("unsupported", "\"foo_cpu\" not implemented for 'Half'", "dtype_refused", "unsupported_operator"),
    ("runtime_error", "IndexError: index out of range in self", "index_out_of_bounds", "other"),
    ("runtime_error", "mat1 and mat2 shapes cannot be multiplied (<n> and <n>)", "shape_mismatch", "other"),
    ("crash", "killed by SIGSEGV while running", "crash", "crash"),
    ("timeout", "no answer within <n> s, while loading", "time_out", "stalled"),
    ("oom", "std::bad_alloc", "memory", "other"),
    ("compile_error", "CppCompileError: C++ compile error", "code_generation", "code_generation"),
    ("runtime_error", "AcceleratorError: CUDA error: invalid argument", "other", "other"),
    ("runtime_error", "something nobody has seen", "other", "other"),
)
RAN = ("ok", "nondeterministic")
CALM = ("rounding", "ill_conditioned", "internal", "undefined")
WRONG = ("structural", "exceptional", "discrepant", "reduced_precision")
OPERATORS = ("aten.add.Tensor", "aten.add.Scalar", "aten.mm.default", "aten.relu.default", "aten.relu_backward.default")


#: Platforms that were probed, and what each answered.
PROBED = {REFERENCE: "f-eager", "onnxruntime/cpu": "f-ort"}
SUPPORT = {
    "aten.add.Tensor": "runs", "aten.mm.default": "runs", "aten.sin.default": "decomposed",
    "aten.foo.default": "refuses",
}  # fmt: skip


@dataclass
class Made:
    """What was written, for a recount in plain Python. Keys: (model, platform)."""

    run: str
    outcomes: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict[tuple[str, str], dict[str, Any]])
    verdicts: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict[tuple[str, str], dict[str, Any]])
    graphs: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])


def made(store: Store, seed: int, *, models: int = 40, kind: str = "campaign", finished: bool = True) -> Made:
    """A run whose every row is drawn; what is drawn fits together as rows of `diff` do."""
    draw = random.Random(seed)
    found = Made(f"{kind}-{seed}")
    with store.writer() as writer:
        writer.append("runs", {
            "run": found.run, "kind": kind, "created": datetime(2026, 11, 21, seed % 24, tzinfo=UTC), "version": "0",
            "reference": REFERENCE, "settings": json.dumps({"platforms": list(PLATFORMS)}),
            "seconds": 60.0 if finished else None,
        })  # fmt: skip
        for number in range(models):
            _model(found, draw, number)
        for graph in found.graphs.values():
            writer.append("graphs", {key: value for key, value in graph.items() if key != "model"})
            writer.append("models", {
                "run": found.run, "model": graph["model"], "position": 0, "graph": graph["graph"],
                "nodes": graph["nodes"], "operators": 1, "inputs": [], "outputs": [], "timings": {},
            })  # fmt: skip
        writer.append("platforms", [{"run": found.run, "platform": p, "fingerprint": fingerprint}
                                    for p, fingerprint in PROBED.items()])  # fmt: skip
        writer.append("support", [
            {"fingerprint": fingerprint, "platform": p, "op": op, "dtype": dtype, "layout": "contiguous",
             "answer": answer}
            for p, fingerprint in PROBED.items() for op, answer in SUPPORT.items() for dtype in ("float32", "int64")
        ])  # fmt: skip
        writer.append("outcomes", list(found.outcomes.values()))
        writer.append("verdicts", list(found.verdicts.values()))
        if kind == "campaign":
            writer.append("blocks", [_block(found.run, number) for number in range(2)])
    return found


def _model(found: Made, draw: random.Random, number: int) -> None:
    model, graph = f"m{number:03}", f"{number:064x}"
    variant = draw.choice(
        [None, "", {"base": 1}, {"parts": [[1]]}, {"parts": [[1], [2]]}, {"kind": "metamorphic", "parts": [[1]]}]
    )
    found.graphs[graph] = {
        "model": model, "graph": graph, "structure": graph, "name": model, "source": "",
        "nodes": draw.choice([1, 10, 11, 60, 300, 301, 1000, 1001]), "tensors": [],
        "operators": sorted(draw.sample(OPERATORS, draw.randint(1, 3))),
        "variant": json.dumps(variant) if variant else variant,
    }  # fmt: skip
    reference = _outcome(found, draw, model, graph, REFERENCE, fails=0.15)
    for platform in PLATFORMS:
        if platform == "cpu/inductor" and number % 3:
            continue
        _verdict(found, draw, _outcome(found, draw, model, graph, platform, fails=0.2), reference)


def _outcome(found: Made, draw: random.Random, model: str, graph: str, platform: str, fails: float) -> dict[str, Any]:
    failed = draw.random() < fails
    status, signature, _, _ = draw.choice(FAILURES) if failed else (draw.choice(["ok"] * 9 + [RAN[1]]), "", "", "")
    outputs = [_output(draw) for _ in range(2)] if not failed else []
    found.outcomes[model, platform] = {
        "run": found.run, "model": model, "graph": graph, "platform": platform, "fingerprint": "f", "status": status,
        "op": "aten.foo.default" if status == "unsupported" else None, "message": signature, "signature": signature,
        "outputs": outputs,
        "timings": {} if failed else {"load": 0.5, "run": draw.random() + 0.01, "second_run": draw.random() + 0.01},
    }  # fmt: skip
    return found.outcomes[model, platform]


def _output(draw: random.Random) -> dict[str, Any]:
    nan, inf = draw.choice([(0, 0), (0, 0), (2, 0), (0, 2), (1, 2)])
    return {
        "dtype": "float32", "shape": [4], "digest": draw.choice("ab"), "nan": nan, "pos_inf": inf, "neg_inf": 0,
        "zero": 0, "minimum": 0.0, "maximum": 1.0, "mean": 0.5, "norm": 1.0, "sample": [0.0],
    }  # fmt: skip


def _verdict(found: Made, draw: random.Random, outcome: dict[str, Any], reference: dict[str, Any]) -> None:
    """A verdict as `diff` would reach it, where it could; drawn where it depends on the bytes."""
    ran, answered = outcome["status"] in RAN, reference["status"] in RAN
    verdict: str | None = None
    word = "no_reference"
    if outcome["status"] == "unsupported":
        word = "unsupported"
    elif not answered:
        if ran and reference["status"] != "unsupported":
            verdict = word = "reference_failed"
    elif not ran:
        verdict = word = "failed"
    elif outcome["status"] == reference["status"] == "ok" and digests(outcome) == digests(reference):
        verdict = word = "identical"
    else:
        word = draw.choice([*("rounding", "ill_conditioned", "undefined") * 3, *WRONG, "unjudged", "not_judged"])
        if word == "undefined" and int(outcome["model"][-1]) % 2:
            word = "internal"
        verdict = None if word in ("unjudged", "not_judged") else word
    profiles = {name: draw.random() < 0.7 for name in ("paper", "assert_close")} if verdict in (*CALM, *WRONG) else {}
    if verdict == "identical":
        profiles = {"paper": True, "assert_close": True}
    found.verdicts[outcome["model"], outcome["platform"]] = {
        "run": found.run, "model": outcome["model"], "graph": outcome["graph"], "platform": outcome["platform"],
        "reference": REFERENCE, "status": outcome["status"], "verdict": verdict, "word": word,
        "blame": draw.choice(["platform", "reference"]) if verdict in (*WRONG, "failed", "reference_failed") else None,
        "culprit_op": draw.choice([*OPERATORS, None]) if verdict in (*WRONG, "failed") else None,
        "remaining_precision": draw.choice([None, 0, 12, 23]) if verdict in (*CALM, *WRONG) else None,
        "profiles": profiles, "nodes": [], "detail": "", "broken": "Traceback" if word == "not_judged" else "",
    }  # fmt: skip


def digests(outcome: dict[str, Any]) -> tuple[str, ...]:
    """What is equal where the outputs are."""
    return tuple(f"{o['dtype']}{o['shape']}{o['digest']}" for o in outcome["outputs"])


def _block(run: str, number: int) -> dict[str, Any]:
    features = ["aten.add.Tensor|float32|contiguous|even", "aten.mm.default>aten.relu.default", "kind:cast"]
    more = ["aten.mm.default|float32|contiguous|odd", "aten.add.Tensor|int64|strided|even"]
    return {
        "run": run, "block": number, "shard": "0", "cases": 20, "features": features + more[number:],
        "given": {}, "left_out": {"cpu/inductor": 13, "cpu/jit": 0},
        "refused": [{"platform": "onnxruntime/cpu", "reason": "aten.foo.default", "count": 4 + number}],
        "found": [], "seconds": 1.0,
    }  # fmt: skip
