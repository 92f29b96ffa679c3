"""A report with every word in it, for tests of what is made from reports."""

from __future__ import annotations

from dataclasses import replace

from mindgap.graph.compare.culprit import culprit_of
from mindgap.graph.compare.verdict import Fault
from mindgap.platforms.delegation import Delegation
from mindgap.platforms.name import CPU_EAGER, parse
from mindgap.workflows.diff import Model, PlatformFacts, Refused, Report, Row

PLATFORMS = (
    parse("cpu/eager@isa=avx2"),
    parse("cpu/inductor"),
    parse("onnxruntime/cpu"),
    parse("openvino/cpu@precision=default"),
)
DELEGATION = Delegation("XNNPACK", {"aten.conv2d.default": 20}, {"aten.relu.default": 2}, "portable kernels", 3)


def sample() -> Report:
    """Three models on four platforms: 12 rows, 5 findings, 1 unsupported, 1 without a reference."""
    rows = (
        Row("resnet18", PLATFORMS[0], "ok", "identical", digests=("a",)),
        Row("resnet18", PLATFORMS[1], "ok", "rounding", metrics(22), digests=("b",)),
        Row("resnet18", PLATFORMS[2], "ok", "rounding", metrics(19), digests=("b",), delegation=DELEGATION),
        Row(
            "resnet18", PLATFORMS[3], "ok", "reduced_precision", metrics(7),
            culprit_of(3, "aten.conv2d.default", "conv1 (resnet.py:12)"), "platform",
            detail="computed in fewer bits than declared on openvino/cpu@precision=default: aten.conv2d.default",
            profiles={"paper": False, "assert_close": False}, digests=("c",),
            nodes=((3, "aten.conv2d.default", "introduces"), (4, "aten.relu.default", "propagates")),
        ),
        Row("tiny_bert", PLATFORMS[0], "ok", "ill_conditioned", metrics(3), digests=("x",)),
        Row(
            "tiny_bert", PLATFORMS[1], "ok", "exceptional", {**metrics(0), "max_abs": float("inf"), "nan_mismatch": 3},
            culprit_of(9, "aten.clamp.default+aten.log.default"), "platform",
            detail="NaN <b>where</b> none is & may be",
            profiles={"paper": False, "assert_close": False}, digests=("y",),
        ),
        Row("tiny_bert", PLATFORMS[2], "compile_error", "failed", blame="platform", message="no kernel <x>\nmore",
            signature="no kernel <x>"),
        Row("tiny_bert", PLATFORMS[3], "unsupported", None, message="aten.special_i0.default: not implemented"),
        Row("sorter", PLATFORMS[0], "ok", "undefined", metrics(None), digests=("p",)),
        Row("sorter", PLATFORMS[1], "ok", "discrepant", metrics(1), culprit_of(2, "aten.sort.default"), "reference",
            profiles={"paper": True, "assert_close": False}, digests=("q",)),
        Row("sorter", PLATFORMS[2], "ok", "structural", digests=("r",)),
        Row("sorter", PLATFORMS[3], "crash", None, message="gone", detail="the reference failed as well"),
    )  # fmt: skip
    models = tuple(
        Model(
            name,
            f"{name}-digest",
            60,
            14,
            ("float32[1,3,64,64]",),
            ("float32[1,10]",),
            "ok",
            reference_digests=(d,),
            source=f"timm:{name}" if name == "resnet18" else "",
        )
        for name, d in (("resnet18", "a"), ("tiny_bert", "w"), ("sorter", "o"))
    )
    facts = (
        PlatformFacts("cpu/eager", "torch", True, "", "AMD EPYC", {"torch": "2.13.0"}, {"threads": "a number"}),
        *(PlatformFacts(name, "x", True, "", "AMD EPYC", {"torch": "2.13.0"}) for name in PLATFORMS),
        PlatformFacts("cuda/eager", "torch", False, "no CUDA device is visible"),
    )
    return Report(CPU_EAGER, facts, models, rows, (Refused("timm:none", "no such model"),),
                  "2026-11-21T00:00:00+00:00", "0.1.0", 12.5)  # fmt: skip


def metrics(bits: int | None) -> dict[str, object]:
    """Figures as the judge gives them."""
    return {
        "relative_error": 3e-7, "max_abs": 1.5e-5, "max_rel": 2e-4, "max_ulp": 90, "remaining_precision": bits,
        "cosine": 0.99999, "mad": 1e-7,
        "nan_mismatch": 0, "error_ratio": 1.2,
    }  # fmt: skip


def with_three_faults() -> Report:
    """The sample, its fourth row with three faults, the second known, the last two with scripts."""
    report = sample()
    rows = list(report.rows)
    row = rows[3]
    label = "head (resnet.py:40)"
    faults = (
        Fault(row.culprit, "reduced_precision", "platform", (3, 9), row.detail),
        Fault(
            culprit_of(5, "aten.exp.default"), "discrepant", "platform", (5,), "wrong <exp>", None, "print(5)\n", True
        ),
        Fault(culprit_of(7, "aten.tanh.default", label), "exceptional", "reference", (7,), "NaN", None, "print(7)\n"),
    )
    rows[3] = replace(row, faults=faults, timings={"judge": 1.0})
    return replace(report, rows=tuple(rows))
