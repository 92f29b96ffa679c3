"""Two causes are one where a rule, an inner operator or a swap shows it, and only then."""

from __future__ import annotations

from dataclasses import replace

from causes.made_summaries import group, summary
from causes.test_swapping import graph
from mindgap.findings.causes import causes_of
from mindgap.findings.causes.mechanism import ReducedCase, ShownDamage, pairs_to_compare, same_mechanism
from mindgap.findings.causes.rule_reader import rules_of_file
from mindgap.findings.causes.swapping import swapped
from mindgap.findings.causes.translation_rules import rule_of
from mindgap.findings.reduction.files import Summary
from mindgap.graph import Graph
from mindgap.platforms.name import parse

ORT, OV = "onnxruntime/cpu", "openvino/cpu@precision=f32"


def case(found: Summary, made: Graph | None = None, passing: Graph | None = None, *parts: str) -> ReducedCase:
    return ReducedCase(found, made, passing, parts)


def pooling(op: str, *size: int) -> ReducedCase:
    made = graph(f"{op}.default", size, inputs=((1, 2, *(4,) * len(size)),))
    return case(summary(ORT, "exceptional", op, special=True, stage="kernel"), made)


def test_only_findings_that_look_alike_are_compared() -> None:
    kernel, other = pooling("max_pool2d", 2, 2), pooling("max_pool3d", 2, 2, 2)
    stage = replace(other, summary=replace(other.summary, stage="graph optimiser"))
    damage = replace(other, summary=replace(other.summary, verdict="structural"))
    platform = replace(other, summary=replace(other.summary, platform=parse(OV)))
    again = replace(kernel, summary=replace(kernel.summary, script="again.py"))
    for unlike in (stage, damage, platform, again):
        assert pairs_to_compare([kernel, unlike]) == []
    assert pairs_to_compare([kernel, other]) == [(kernel, other)]
    failed = [case(summary(OV, "failed", op, signature=f"no {word}")) for op, word in (("im2col", "a"), ("pad", "b"))]
    assert pairs_to_compare(failed) == [], "their messages differ"
    assert len(pairs_to_compare([pooling(f"max_pool{n}d", *(2,) * n) for n in (1, 2, 3)], most=2)) == 2


def test_a_swap_that_shows_the_same_at_the_same_stage_is_evidence() -> None:
    two, three = pooling("max_pool2d", 2, 2), pooling("max_pool3d", 2, 2, 2)
    ran: list[Graph] = []

    def run(platform: str, draft: Graph) -> ShownDamage | None:
        ran.append(draft)
        return ShownDamage("special values", "kernel")

    found = same_mechanism(two, three, run)
    assert found is not None and ran == [swapped(two.graph, "aten.max_pool2d.default", "aten.max_pool3d.default")]  # pyright: ignore[reportArgumentType]
    assert found.evidence.startswith("aten.max_pool3d.default in place of aten.max_pool2d.default in ")
    causes = causes_of([group(two.summary), group(three.summary)], [found])
    assert len(causes) == 1 and causes[0].merged == (found.evidence,)
    assert len(causes_of([group(two.summary), group(three.summary)])) == 2
    for shown in (None, ShownDamage(None), ShownDamage("special values", "exporter"), ShownDamage("values", "kernel")):
        assert same_mechanism(two, three, lambda _, __, shown=shown: shown) is None


def test_a_swap_must_be_right_where_the_first_operator_is_right() -> None:
    passing = graph("softmax.int", -1, inputs=((2, 3),))
    one = case(summary(ORT, "reduced_precision", "aten.softmax.int", stage="kernel"), graph("softmax.int", -1), passing)
    two = case(summary(ORT, "reduced_precision", "aten.log_softmax.int", stage="kernel"))

    def run(right: ShownDamage | None):  # a function
        return lambda _, draft: right if draft.inputs == passing.inputs else ShownDamage("precision", "kernel")

    assert "it is right too" in getattr(same_mechanism(one, two, run(ShownDamage(None))), "evidence", "")
    assert same_mechanism(one, two, run(ShownDamage("precision", "kernel"))) is None
    assert same_mechanism(one, two, run(None)) is None


def test_an_unknown_stage_or_another_family_is_never_swapped() -> None:
    unknown = [replace(each, summary=replace(each.summary, stage="unknown")) for each in (
        pooling("max_pool2d", 2, 2), pooling("max_pool3d", 2, 2, 2))]  # fmt: skip
    assert same_mechanism(*unknown, lambda _, __: ShownDamage("special values", "unknown")) is None
    one, two = (case(summary(ORT, "discrepant", op, stage="kernel"), graph(f"{op}.default")) for op in ("sin", "relu"))
    assert same_mechanism(one, two, lambda _, __: ShownDamage("values", "kernel")) is None


def test_operators_that_run_as_one_are_one_cause_without_a_run() -> None:
    roll, shift = (
        case(summary("xla/eager", "failed", op, status="crash"), None, None, "roll") for op in ("roll", "fft_ifftshift")
    )
    found = same_mechanism(roll, shift)
    assert found is not None and found.evidence == "Eager PyTorch runs both roll and fft_ifftshift as roll."
    assert same_mechanism(roll, replace(shift, parts=("roll", "add"))) is None


def test_one_rule_of_the_exporter_is_one_cause_with_wrong_values_and_nan() -> None:
    wrong = case(summary(ORT, "discrepant", "_native_batch_norm_legit", stage="exporter"))
    nan = case(summary(ORT, "exceptional", "native_batch_norm", stage="exporter", special=True))
    assert pairs_to_compare([wrong, nan]) == [(wrong, nan)]
    found = same_mechanism(wrong, nan)
    assert found is not None and "aten_native_batch_norm in onnxscript/" in found.evidence
    (cause,) = causes_of([group(wrong.summary), group(nan.summary)], [found])
    assert cause.damage == "values", "the worse of the two"
    kernel = case(replace(nan.summary, stage="kernel"))
    assert same_mechanism(wrong, kernel) is None, "a kernel has no rule"


def test_a_known_mechanism_counts_instead_of_the_operator() -> None:
    one = replace(summary(ORT, "discrepant", "gelu", stage="kernel"), mechanism="the kernel of Gelu, its polynomial")
    assert len(causes_of([group(one), group(replace(one, operators=("aten.mish.default",), script="b.py"))])) == 1
    assert len(causes_of([group(one), group(replace(one, mechanism="BiasGelu fusion", script="b.py"))])) == 2
    nan = replace(one, verdict="exceptional", special_inputs=True, script="c.py")
    (cause,) = causes_of([group(one), group(nan)])
    assert (cause.mechanism, cause.damage) == (one.mechanism, "values")


def test_rules_are_read_from_sources() -> None:
    text = '''
@torch_op(("aten::amax", "aten::amin.out"), trace_only=True)
def aten_amax(self): return op.ReduceMax(self)
@op(torch.ops.aten.mean, is_jax_function=True)
@op(torch.ops.aten.sum.default)
def _mean(x, dim=None):
    """Text."""
    return jnp.mean(x, dim)
def create_convert_map(self):
    return {"abs.default": self._unary_op(relax.op.abs), "add.Tensor": self._add}
'''
    found = {op: (name, code) for _, op, name, _, code in rules_of_file("x", "f.py", text)}
    names = {op: name for op, (name, _) in found.items()}
    assert names == {
        "amax": "aten_amax", "amin.out": "aten_amax", "mean": "_mean", "sum.default": "_mean",
        "abs.default": "self._unary_op(relax.op.abs)", "add.Tensor": "self._add",
    }  # fmt: skip
    copied = 'def _other(x, dim=None):\n    "Another text."\n    return jnp.mean( x, dim )'
    ((_, _, _, _, code),) = rules_of_file("y", "g.py", f"@op(torch.ops.aten.mean)\n{copied}")
    assert code == found["mean"][1] != found["amax"][1], "the same code, whatever it is called"


def test_a_rule_is_found_by_overload_by_packet_and_by_function() -> None:
    rule = rule_of(parse(ORT), "aten.avg_pool2d.default")
    assert rule is not None and (rule.name, rule.file.rpartition("/")[2]) == ("aten_avg_pool2d", "nn.py")
    assert (
        rule_of(parse(ORT), "aten.amax.default")
        == rule_of(parse("openvino/cpu@frontend=onnx"), "aten.amax.default")
        is not None
    )
    assert rule_of(parse("cpu/inductor"), "aten.avg_pool2d.default") is None, "it has no list of rules"
    assert rule_of(parse(ORT), "aten.no_such.default") is None
