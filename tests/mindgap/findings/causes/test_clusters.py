"""Findings with one root cause are one cause, and findings with two are two."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace

import pytest

from findings.causes.made_summaries import group, real_findings, summary
from mindgap.findings.causes import Cause, cause_key_of_row, cause_key_of_summary, causes_of, causes_of_rows
from mindgap.findings.reduction.files import Summary
from mindgap.graph.compare.culprit import SubmoduleCulprit, culprit_of
from mindgap.platforms.name import parse
from mindgap.results.rows import Row

FINDINGS = real_findings()
ORT, OV = "onnxruntime/cpu", "openvino/cpu@precision=f32"
OVX = "openvino/cpu@frontend=onnx,precision=f32"


def names_of(causes: tuple[Cause, ...]) -> list[tuple[str, ...]]:
    """For each cause the names of the root causes that it holds."""
    return [tuple(dict.fromkeys(name for f in cause.findings for name, s in FINDINGS if s == f)) for cause in causes]


def test_real_findings_cluster_as_a_person_reads_them() -> None:
    causes = causes_of(group(found) for _, found in FINDINGS)
    held = names_of(causes)
    assert [names for names in held if len(names) > 1] == [], "two bugs in one cause"
    of = defaultdict[str, list[str]](list)
    for cause, (name, *_) in zip(causes, held, strict=True):
        of[name].append(cause.title)
    assert {name: titles for name, titles in of.items() if len(titles) > 1} == {}, "one bug in two causes"
    assert len(causes) == len({name for name, _ in FINDINGS}) and len({cause.id for cause in causes}) == len(causes)


def test_the_order_of_findings_does_not_matter() -> None:
    groups = [group(found, number, f"v{number}") for number, (_, found) in enumerate(FINDINGS)]
    expected = causes_of(groups)
    for seed in range(5):
        shuffled = random.Random(seed).sample(groups, len(groups))
        assert causes_of(shuffled) == expected


def test_a_cause_counts_its_rows_and_lists_its_cases_and_platforms() -> None:
    (cause,) = causes_of([
        group(summary(ORT, "discrepant", "avg_pool2d", verified=False), 3, "v1", "v2"),
        group(summary(OVX, "discrepant", "avg_pool2d"), 2, "v2", "v5"),
    ])  # fmt: skip
    assert (cause.rows, cause.cases, cause.platforms) == (5, ("v1", "v2", "v5"), (ORT, OVX))
    assert cause.findings[0].platform == OVX, "a verified script comes first"
    assert cause.title.startswith("torch.onnx: aten.avg_pool2d"), "two runtimes share the exporter"
    assert any("onnxruntime/cpu and openvino/cpu" in sentence for sentence in cause.stage_evidence)


def only(*found: Summary) -> int:
    return len(causes_of(group(each) for each in found))


def test_in_place_out_and_overloads_are_one_operator() -> None:
    ops = ("aten.add.Tensor", "aten.add_.Tensor", "aten.add.Scalar", "aten.add.out")
    assert only(*(summary("cpu/jit", "discrepant", op) for op in ops)) == 1
    assert only(summary("cpu/jit", "discrepant", "aten.add.Tensor"), summary("cpu/jit", "discrepant", "addmm")) == 2


@pytest.mark.parametrize(
    ("op", "other"),
    [
        ("softmax", "_softmax"),
        ("layer_norm", "native_layer_norm"),
        ("batch_norm", "_native_batch_norm_legit_no_training"),
        ("max_pool2d", "max_pool2d_with_indices"),
        ("unfold", "unfold_copy"),
        ("to", "_to_copy"),
        ("embedding_bag", "_embedding_bag_forward_only"),
        ("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu"),
        ("bitwise_and", "__iand__"),
    ],
)
def test_wrappers_of_one_function_are_one_operator(op: str, other: str) -> None:
    assert only(summary("cpu/jit", "discrepant", op), summary("cpu/jit", "discrepant", other)) == 1


@pytest.mark.parametrize(
    ("op", "other"), [("softmax", "softmax_backward_data"), ("index", "index_copy"), ("cdist", "_cdist_backward")]
)
def test_other_functions_are_other_operators(op: str, other: str) -> None:
    assert only(summary("cpu/jit", "discrepant", op), summary("cpu/jit", "discrepant", other)) == 2


def test_stages_tell_wrong_results_apart() -> None:
    exporter = [summary(p, "discrepant", "gelu", stage="exporter") for p in (ORT, OVX)]
    kernel = summary(ORT, "discrepant", "gelu", stage="kernel")
    optimiser = summary(ORT, "discrepant", "gelu", stage="graph optimiser")
    assert only(*exporter) == 1
    assert only(*exporter, kernel) == 2
    assert only(kernel, optimiser) == 2, "two stages of one runtime"
    unknown = summary(OV, "discrepant", "gelu")
    assert only(unknown, summary(OV, "discrepant", "gelu", stage="kernel")) == 1, "an unknown stage joins the known one"


def test_a_fault_of_the_reference_is_one_cause_on_all_platforms() -> None:
    found = [summary(p, "discrepant", "lgamma", blame="reference") for p in (ORT, OV, "cpu/inductor")]
    (cause,) = causes_of(map(group, found))
    assert len(cause.platforms) == 3 and cause.blame == "reference"
    assert only(*found, summary(ORT, "discrepant", "lgamma")) == 2


def test_dtypes_with_other_kernels_are_other_causes() -> None:
    dtypes = ("float32", "float64", "float16", "int8", "int64", "complex64")
    by = {dtype: summary(ORT, "discrepant", "sum", dtypes=(dtype,)) for dtype in dtypes}
    assert only(by["float32"], by["float64"]) == only(by["int8"], by["int64"]) == 1
    assert only(by["float32"], by["float16"], by["int8"], by["complex64"]) == 4


def test_many_functions_in_float64_are_one_policy_even_if_none_was_named() -> None:
    wide = [summary(OV, "reduced_precision", op, dtypes=("float64",)) for op in ("mm", "exp", "sum")]
    assert only(*wide) == 1 and only(*wide[:2]) == 2
    assert only(*wide, summary(OV, "reduced_precision", "sum", dtypes=("float32",))) == 2


def test_a_message_on_a_dtype_is_one_cause_and_a_lacking_operator_is_one_each() -> None:
    refused = "Unsupported data type uint16"
    assert only(*(summary(OV, "failed", op, signature=refused) for op in ("abs", "cumsum", "topk"))) == 1
    lacking = "NotImplementedError: operator {} is not supported"
    assert only(*(summary(OV, "failed", op, signature=lacking.format(op)) for op in ("abs", "cumsum"))) == 2


def test_a_message_is_shared_by_operators_of_one_translation_only() -> None:
    told = "FAIL: Reshape: [ShapeInferenceError] Invalid Target shape"
    assert only(*(summary(ORT, "failed", op, signature=told) for op in ("amax", "amin"))) == 1
    assert only(*(summary(ORT, "failed", op, signature=told) for op in ("im2col", "pixel_shuffle"))) == 2
    assert only(*(summary(ORT, "failed", op, signature=told) for op in ("amax", "std"))) == 2


def test_a_crash_and_a_hang_of_one_operator_are_two_causes_whatever_was_printed() -> None:
    crash = summary(ORT, "failed", "gather", status="crash", signature="SIGSEGV | one")
    again = summary(ORT, "failed", "gather", status="crash", signature="SIGSEGV | two")
    assert only(crash, again, summary(ORT, "failed", "gather", status="timeout")) == 2


def test_an_id_does_not_depend_on_the_variant_and_is_the_same_in_every_process() -> None:
    one = summary(ORT, "discrepant", "avg_pool2d", script="a.py")
    assert cause_key_of_summary(one) == cause_key_of_summary(replace(one, script="b.py", nodes=3))
    assert cause_key_of_summary(one).id == "852aad943f"


def test_rows_without_a_reduction_group_by_culprit_and_failure() -> None:
    def key(platform: str, op: str, **more: str) -> str:
        culprit = culprit_of(3, op) if op else None
        row = Row("m", parse(platform), "ok", "discrepant", culprit=culprit, blame="platform")
        return cause_key_of_row(replace(row, **more)).id  # pyright: ignore[reportArgumentType] # names of fields

    assert key(ORT, "aten.add_.Tensor") == key(OVX, "aten.add.Tensor") != key(OV, "aten.add.Tensor")
    assert key(ORT, "aten.sin.default") != key(ORT, "aten.sin.default", verdict="structural")
    failed = {"verdict": "failed", "status": "compile_error"}
    assert key(ORT, "", signature="no a", **failed) != key(ORT, "", signature="no b", **failed)
    policy = "dtype policy: float64 computed in float32"
    assert (
        key(OV, policy, verdict="reduced_precision")
        == cause_key_of_summary(summary(OV, "reduced_precision", "mm", dtypes=("float64",), culprit=policy)).id
    )


def test_one_submodule_that_three_exports_change_is_one_cause_with_its_platforms() -> None:
    platforms = ("cpu/inductor", "cpu/jit", ORT)

    def rows(path: str, model: str = "m") -> list[Row]:
        culprit = SubmoduleCulprit(path, f"{path} (model.py:6)")
        return [Row(model, parse(each), "ok", "export", culprit=culprit, blame="platform") for each in platforms]

    (pair,) = causes_of_rows(rows("blocks.1"))
    assert pair[0].platforms == platforms and len(pair[1]) == 3
    assert pair[0].title.startswith("the exported program: ")
    assert len(causes_of_rows([*rows("blocks.1"), *rows("blocks.2"), *rows("blocks.1", "n")])) == 3
