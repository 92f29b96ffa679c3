"""A ledger tells which causes are new, known or back, and which issues are gone."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from findings.causes.made_summaries import group, summary
from mindgap.findings.causes import Cause, causes_of
from mindgap.findings.causes.ledger import Ledger, Review
from mindgap.graph import MindgapError
from mindgap.platforms.environments.environment import installed

ORT, OV = "onnxruntime/cpu", "openvino/cpu@precision=f32"
TODAY = date(2026, 11, 22)
POOL = causes_of([group(summary(ORT, "discrepant", "avg_pool2d"))])
BOTH = causes_of([
    group(summary(ORT, "discrepant", "avg_pool2d")),
    group(summary(OV, "failed", "std", signature="Unexpected value of correction.")),
])  # fmt: skip
TEXT = """# What we know.
[[issue]]
link = "https://example.org/1"
match = { platform = "onnxruntime/*", operators = ["avg_pool2d"] }

[[issue]]
note = "no correction"
match = { platform = ["openvino/*"], kind = "failure", signature = "value of correction" }
"""


def ledger(tmp_path: Path, text: str = TEXT) -> Ledger:
    file = tmp_path / "known.toml"
    file.write_text(text)
    return Ledger.load(file)


def reviewed(found: Ledger, causes: tuple[Cause, ...], *platforms: str) -> Review:
    return found.review(causes, platforms or (ORT, OV), lambda _: installed(found.packages), TODAY)


def states(review: Review) -> list[str]:
    return [cause.state for cause in review.causes]


def test_causes_are_known_and_the_others_are_new(tmp_path: Path) -> None:
    found = ledger(tmp_path)
    review = reviewed(found, BOTH)
    assert states(review) == ["known", "known"] and review.lines == []
    assert review.causes[0].upstream_text == "https://example.org/1"
    assert review.causes[1].upstream_text == "no correction"
    other = causes_of([group(summary(ORT, "discrepant", "special_erfcx"))])
    review = reviewed(found, (*BOTH, *other))
    assert states(review)[2] == "new" and review.causes[2].upstream_text == "not looked up"


@pytest.mark.parametrize(
    "match",
    [
        'platform = "openvino/*"',
        'operators = ["max_pool2d"]',
        'kind = "failure"',
        'kind = "exceptional"',
        'signature = "correction"',
        'operators = ["avg_pool2d"], versions = { torch = "1.*" }',
        'operators = ["avg_pool2d"], versions = { no-such-package = "*" }',
        'id = "0000000000"',
    ],
)
def test_an_entry_fits_only_if_every_field_fits(tmp_path: Path, match: str) -> None:
    assert states(reviewed(ledger(tmp_path, f"[[issue]]\nmatch = {{ {match} }}\n"), POOL)) == ["new"]


@pytest.mark.parametrize(
    "match",
    [
        'platform = "onnxruntime/cpu"',
        'operators = ["avg_pool*"]',
        'operators = ["aten.avg_pool2d.default"]',
        'kind = "operator implementation"',
        'kind = "values"',
        'kind = "discrepant", versions = { torch = "2.*" }',
        f'id = "{POOL[0].id}"',
    ],
)
def test_an_entry_fits_by_each_field(tmp_path: Path, match: str) -> None:
    assert states(reviewed(ledger(tmp_path, f"[[issue]]\nmatch = {{ {match} }}\n"), POOL)) == ["known"]


def test_what_is_not_found_any_more_is_gone_and_may_come_back(tmp_path: Path) -> None:
    first = ledger(tmp_path)
    review = reviewed(first, POOL)
    assert [issue.note for issue in review.gone] == ["no correction"]
    assert review.lines == ["gone: nothing that was found fits the issue no correction"]
    assert not reviewed(first, POOL, ORT).gone, "its platform did not run"

    second = ledger(tmp_path, first.updated(review, TODAY))
    assert second.issues[1].gone == TODAY and second.text.startswith("# What we know.")
    assert not reviewed(second, POOL).gone, "it is known to be gone"
    back = reviewed(second, BOTH)
    assert states(back) == ["known", "back"]
    assert back.lines == [f"back: {BOTH[1].title} (it was gone: no correction)"]


def test_an_update_adds_new_causes_so_that_they_are_known(tmp_path: Path) -> None:
    title = 'a "quoted" title \\ with a\nline'
    causes = (replace(BOTH[0], title=title), BOTH[1])
    text = Ledger().updated(reviewed(Ledger(), causes), TODAY)
    assert [entry["match"]["id"] for entry in tomllib.loads(text)["issue"]] == [cause.id for cause in causes]
    assert states(reviewed(ledger(tmp_path, text), causes)) == ["known", "known"]


def test_an_expired_entry_no_longer_counts_and_says_so(tmp_path: Path) -> None:
    text = TEXT.replace('link = "https://example.org/1"', 'link = "https://example.org/1"\nexpires = 2026-11-22')
    review = reviewed(ledger(tmp_path, text), BOTH)
    assert states(review) == ["new", "known"]
    assert review.lines == ["expired on 2026-11-22: https://example.org/1: look at it again, then move the date"]
    assert states(reviewed(ledger(tmp_path, text.replace("2026-11-22", "2026-11-23")), BOTH)) == ["known", "known"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[issue]", "cannot be read"),
        ("[[isue]]\n", "isue is no part of a ledger"),
        ('[[issue]]\nlink = "x"\n', "issue 1, match"),
        ('[[issue]]\nmatch = { platfrom = "x" }\n', "issue 1, match, platfrom"),
        ('[[issue]]\nmatch = { operators = "add" }\n', "issue 1, match, operators"),
        ("[[issue]]\nmatch = {}\n", "issue 1 fits every cause"),
        ('[[issue]]\nmatch = { versions = { torch = "2.*" } }\n', "issue 1 fits every cause"),
        ('[[issue]]\nmatch = { kind = "wrong" }\n', "match.kind: 'wrong' is none of operator implementation, "),
        ('[[issue]]\nmatch = { signature = "(" }\n', "is no regular expression"),
        ('[[issue]]\nexpires = "soon"\nmatch = { id = "a" }\n', "issue 1, expires"),
    ],
)
def test_a_bad_ledger_is_one_clear_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(MindgapError) as raised:
        ledger(tmp_path, text)
    assert told in str(raised.value) and "\n" not in str(raised.value) and "known.toml" in str(raised.value)
    with pytest.raises(MindgapError, match="no ledger"):
        Ledger.load(tmp_path / "missing.toml")


def test_versions_are_those_of_the_platform_s_environment(tmp_path: Path) -> None:
    """Two versions of one runtime in one run: an entry for one of them says nothing of the other."""
    entry = '[[issue]]\nmatch = {{ platform = "onnxruntime/*", versions = {{ onnxruntime = "{}" }} }}\n'
    old = causes_of([group(summary("onnxruntime/cpu@env=old", "discrepant", "avg_pool2d"))])

    def versions(platform: str) -> dict[str, str]:
        return {"onnxruntime": "1.24.4" if "env=old" in platform else "1.31.1"}

    for wanted, state in (("1.24.*", "known"), ("1.31.*", "new")):
        found = ledger(tmp_path, entry.format(wanted))
        review = found.review(old, ("onnxruntime/cpu@env=old",), versions, TODAY)
        assert states(review) == [state] and not review.gone
        assert len(found.review((), ("onnxruntime/cpu@env=old",), versions, TODAY).gone) == (state == "known")
