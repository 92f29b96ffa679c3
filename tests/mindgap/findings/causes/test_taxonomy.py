"""Each class of the paper has its findings, and every finding has a class."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from findings.causes.made_summaries import real_findings, summary
from mindgap.findings.causes.cause import CauseClass
from mindgap.findings.causes.key import damage_of
from mindgap.findings.causes.taxonomy import class_of
from mindgap.findings.reduction.files import Summary

ORT = "onnxruntime/cpu"
SATURATES = "dtype policy: int8 saturates"
CASES: tuple[tuple[CauseClass, Summary], ...] = (
    ("operator implementation", summary(ORT, "discrepant", "avg_pool2d")),
    ("operator implementation", summary(ORT, "structural", "linalg_vector_norm")),
    ("operator implementation", summary("cpu/eager@isa=avx2", "failed", "prelu", signature="RuntimeError: bad luck")),
    ("exceptional values", summary(ORT, "exceptional", "remainder", special=True)),
    ("exceptional values", summary(ORT, "exceptional", "special_erfcx")),
    ("scheduling", summary("cuda/eager", "discrepant", "max_unpool2d", status="nondeterministic")),
    ("undefined behaviour", summary(ORT, "discrepant", "remainder", dtypes=("int64",))),
    ("operator implementation", summary(ORT, "discrepant", "remainder", dtypes=("float32",))),
    ("undefined behaviour", summary(ORT, "discrepant", "_to_copy", special=True)),
    ("undefined behaviour", summary(ORT, "discrepant", "add", dtypes=("int8",), culprit=SATURATES)),
    ("stalled", summary("cpu/jit", "failed", "add", status="timeout")),
    ("crash", summary("cpu/inductor", "failed", "add", status="crash", signature="SIGSEGV")),
    ("crash", summary("cpu/jit", "failed", "add", signature="double free or corruption")),
    ("unsupported", summary(ORT, "failed", "add", signature="RuntimeError: \"add\" not implemented for 'Half'")),
    ("unsupported", summary(ORT, "failed", "add", signature="NOT_IMPLEMENTED: Could not find Add")),
    ("code generation", summary("cpu/inductor", "failed", "add", signature="CppCompileError: C++ compile error")),
    ("code generation", summary(ORT, "failed", "pad", signature="FAIL: Pad: Unexpected mode of <n>")),
)  # fmt: skip


def class_of_finding(found: Summary) -> CauseClass:
    return class_of(damage_of(found.verdict, found.status, special=found.special_inputs), found)


@pytest.mark.parametrize(("expected", "found"), CASES)
def test_a_finding_has_its_class(expected: CauseClass, found: Summary) -> None:
    assert class_of_finding(found) == expected


def test_all_classes_occur_and_every_finding_has_one() -> None:
    assert {expected for expected, _ in CASES} == set(get_args(CauseClass))
    assert {class_of_finding(found) for _, found in real_findings()} <= set(get_args(CauseClass))
    verdicts = ("failed", "structural", "exceptional", "discrepant", "reduced_precision", "reference_failed", "")
    statuses = ("ok", "compile_error", "runtime_error", "crash", "timeout", "oom", "nondeterministic", "")
    for verdict, status, ops in itertools.product(verdicts, statuses, [(), ("aten.nothing.default",), ("x",)]):
        found = summary(ORT, verdict, *ops, status=status, dtypes=())
        assert class_of_finding(found) in get_args(CauseClass)
