"""What a plan may say, and what is said of one that it may not."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mindgap.graph import MindgapError, default_tensor_store
from mindgap_campaign.campaign.cases.case import Shard
from mindgap_campaign.campaign.judging.judge_process import judge_limits
from mindgap_campaign.campaign.plan import Plan, PlanError, changed, parse_plan, read_plan
from mindgap_campaign.campaign.plan.positions import line_of

TENSORS = default_tensor_store()
GOOD = """\
seed = 7
catalogue = "out/catalogue"   # a comment with = and [
reference = "cpu/eager"
[variants]
count = 20000
sizes = [
  {nodes = 20, share = 0.5},
  {nodes = 60, share = 0.5},
]
mutated = 0.25
[platforms]
"cpu/eager@threads=1,isa=avx2" = {}
"onnxruntime/cpu" = { variants = 3000 }
"cpu/inductor" = { cpu_minutes = 60, batch = 50 }
[limits]
deadline_s = 60
repeat = 2
[stop]
minutes = 0
"""


def test_a_good_plan() -> None:
    plan = parse_plan(GOOD, "campaign.toml")
    assert plan.variants.sizes[1].nodes == 60
    assert (plan.limits.deadline_s, plan.limits.judge_s, plan.limits.follow_s) == (60, 20, 60)
    # Each platform in its one spelling, in the order given.
    assert list(plan.platforms) == ["cpu/eager@isa=avx2,threads=1", "onnxruntime/cpu", "cpu/inductor"]
    assert [p.everything for p in plan.platforms.values()] == [True, False, False]
    assert plan.count == 20000


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("seed = 7", "sead = 7", 1, "sead: there is no such key; known are seed, catalogue"),
        ("mutated = 0.25", "mutated = 1.25", 10, "variants.mutated: Input should be less than or equal to 1"),
        ("count = 20000", 'count = "many"', 5, "variants.count: Input should be a valid integer, not 'many'"),
        ("count = 20000", "count = 2.5", 5, "variants.count"),
        ("{nodes = 60, share = 0.5}", "{nodes = 60, shard = 0.5}", 8, "variants.sizes.1.shar"),
        ("{nodes = 60, share = 0.5}", "{nodes = 60, share = 0.6}", 4, "variants: the shares of sizes add up to 1.1"),
        ("variants = 3000", "variant = 3000", 13, 'platforms."onnxruntime/cpu".variant: there is no such key; known'),
        ("onnxruntime/cpu", "onnxruntime/gpu", 13, 'platforms."onnxruntime/gpu"'),
        ('"onnxruntime/cpu"', '"cpu/eager@isa=avx2,threads=1"', 13, "is there already"),
        ('reference = "cpu/eager"', 'reference = "cpu/eeger"', 3, "reference:"),
        ("deadline_s = 60", "deadline_s = 0", 16, "limits.deadline_s"),
        ("minutes = 0", "minutes = true", 19, "stop.minutes"),
        ("[variants]", "[variants", 4, "this is no TOML"),
        ("[stop]\nminutes = 0", "[stap]\nminutes = 0", 18, "stap: there is no such key"),
        ("repeat = 2", "repeat = 2\nrepeat = 3", 18, "this is no TOML"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, line: int, words: str) -> None:
    assert old in GOOD
    with pytest.raises(PlanError) as raised:
        parse_plan(GOOD.replace(old, new), "campaign.toml")
    message = str(raised.value)
    assert message.startswith(f"campaign.toml:{line}: ") and words in message
    assert "\n" not in message


def test_what_is_missing_is_named() -> None:
    with pytest.raises(PlanError, match=r"^p:4: variants\.count is missing$"):
        parse_plan(GOOD.replace("count = 20000\n", ""), "p")
    with pytest.raises(PlanError, match=r"^p:1: seed is missing$"):
        parse_plan(GOOD.replace("seed = 7\n", ""), "p")
    with pytest.raises(PlanError, match="platforms"):
        parse_plan(GOOD.split("[platforms]")[0] + "[platforms]\n", "p")


def test_a_plan_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="No such file"):
        read_plan(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes("seed = '\xe9'".encode("latin-1"))
    with pytest.raises(PlanError, match="UTF-8"):
        read_plan(tmp_path / "latin.toml")


def test_the_digest_knows_what_decides_results() -> None:
    plan = parse_plan(GOOD, "p")
    same = GOOD.replace("minutes = 0", "minutes = 3").replace("out/catalogue", "elsewhere")
    assert parse_plan(same, "p").digest == plan.digest
    for old, new in [("seed = 7", "seed = 8"), ("repeat = 2", "repeat = 3"), ("variants = 3000", "variants = 3001")]:
        assert parse_plan(GOOD.replace(old, new), "p").digest != plan.digest


def test_internal_results_are_judged_where_the_plan_asks_for_it() -> None:
    plan, asks = parse_plan(GOOD, "p"), parse_plan("internal = true\n" + GOOD, "p")
    assert not judge_limits(plan, TENSORS).settings.internal and judge_limits(asks, TENSORS).settings.internal
    assert asks.digest != plan.digest


def test_exceptional_values_are_a_key_of_the_variants() -> None:
    plan = parse_plan(GOOD, "p.toml")
    asked = parse_plan(GOOD.replace("mutated = 0.25", "mutated = 0.25\nexceptional = true"), "p.toml")
    assert (plan.variants.exceptional, asked.variants.exceptional) == (False, True)
    assert asked.digest != plan.digest


def test_changed_keys_are_named() -> None:
    one, other = parse_plan(GOOD, "p"), parse_plan(GOOD.replace("repeat = 2", "repeat = 3"), "p")
    assert changed(one.model_dump(), other.model_dump()) == ["limits.repeat"]
    assert changed(one.model_dump(), one.model_dump()) == []
    assert Plan.model_validate(one.model_dump()) == one


def test_lines_of_nested_and_quoted_keys() -> None:
    text = 'a.b = 1\n\n[c."d.e"]\nf = """\nx = 1\n"""\ng = [\n 1,\n # two\n {h = \'#\'},\n]\n[[k]]\n[[k]]\nl = 1\n'
    tomllib.loads(text)
    assert line_of(text, ("a", "b")) == 1 and line_of(text, ("c", "d.e")) == 3 and line_of(text, ("c", "d.e", "f")) == 4
    assert line_of(text, ("c", "d.e", "g", 1, "h")) == 10 and line_of(text, ("k", 1, "l")) == 14
    assert line_of(text, ("x",)) == 1
    assert line_of(text, ("c", "d.e", "nothing")) == 3


_KEYS = st.text(min_size=1, max_size=4, alphabet='ab-."#= é')
_VALUES = st.recursive(
    st.integers() | st.booleans() | st.text(max_size=5, alphabet="a'\"#]},\\ \n"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(_KEYS, _VALUES, min_size=1, max_size=4))
def test_every_key_has_a_line(data: dict[str, Any]) -> None:
    """One key a line, whatever stands in it: each is found where it was written."""
    text = "".join(f"{_quoted(key)} = {_toml(value)}\n" for key, value in data.items())
    assert tomllib.loads(text) == data
    assert [line_of(text, (key,)) for key in data] == list(range(1, len(data) + 1))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    return str(value)


def test_shards_share_the_blocks_out() -> None:
    shards = [Shard.parse(f"{index}/3") for index in range(3)]
    blocks = [list(shard.blocks(3400)) for shard in shards]
    assert blocks == [[0, 3, 6], [1, 4], [2, 5]]
    assert list(Shard().blocks(500)) == [0] and list(Shard().blocks(501)) == [0, 1]
    for wrong in ("3/3", "1", "a/2", "-1/2", "0/0"):
        with pytest.raises(MindgapError, match="--shard"):
            Shard.parse(wrong)
