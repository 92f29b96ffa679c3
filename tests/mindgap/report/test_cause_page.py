"""Pages of causes: an index that filters thousands of lines, a page with script, output and graph."""

from __future__ import annotations

import dataclasses
import html
import re
from itertools import pairwise
from pathlib import Path

import pytest

from findings.causes.made_summaries import group, summary
from mindgap.cli.cause_outputs import CauseOutputs
from mindgap.findings.causes import Cause, KnownIssue, causes_of
from mindgap.findings.reduction.evidence import Evidence, evidence_file, evidence_text, read_evidence
from mindgap.graph import MindgapError
from mindgap.report.cause_page import cause_page, index_page, page_name
from mindgap.report.graph_svg import graph_svg, positions
from mindgap.results.drawn_graph import DrawnNode
from report.browser import Browser, needs_driver

SCRIPT = 'import torch\n\nprint("a < b & c")\n'


def one_cause() -> Cause:
    (cause,) = causes_of([
        group(summary("onnxruntime/cpu", "discrepant", "sin", script="b.py", stage="kernel", verified=False), 3, "v1"),
        group(summary("onnxruntime/cpu", "discrepant", "sin", script="a.py", stage="kernel"), 4, "v2", "v3"),
    ])  # fmt: skip
    return cause


def chain(count: int, first: int) -> tuple[DrawnNode, ...]:
    """A graph in which each node reads the one before it and every tenth the one seven before."""
    return tuple(
        DrawnNode(
            "aten.add.Tensor",
            tuple(sorted({n for n in (index - 1, index - 7 if index % 10 == 0 else -1) if n >= 0})),
            ("float32[2,3]",),
            "" if index < first else "introduces" if index == first else "propagates",
            f"layer{index} (model.py:{index})",
        )
        for index in range(count)
    )


def written(directory: Path, nodes: int = 20) -> Cause:
    """A cause with its script and evidence, as a reduction writes them."""
    cause = one_cause()
    (directory / "a.py").write_text(SCRIPT)
    evidence = Evidence("eager: 1.0\nFAULT", "sin(1.0) gave 2.0; right is 0.84", "", {"max_abs": 1.16, "max_ulp": 3},
                        chain(1, 0), chain(nodes, nodes // 2))  # fmt: skip
    evidence_file(directory, "a.py").write_text(evidence_text(evidence))
    return cause


def test_a_page_has_the_script_its_output_the_figures_and_the_graph(tmp_path: Path) -> None:
    cause = written(tmp_path)
    page = cause_page(cause, tmp_path)
    assert html.unescape(page.split('<pre id="script-text">')[1].split("</pre>")[0]) == SCRIPT
    assert "Ran twice in fresh processes" in page and "eager: 1.0\nFAULT" in page and "right is 0.84" in page
    assert "<dt>max abs</dt><dd>1.16</dd>" in page and "not looked up" in page and "kernel" in page
    assert page.count('<g class="role-') == 21 and page.count('class="role-introduces" transform') == 2
    assert "7 findings in 3 cases: v1, v2, v3" in page and '<a href="b.py">' in page
    assert cause.severity_reason in page


def test_what_is_not_verified_says_so(tmp_path: Path) -> None:
    cause = written(tmp_path)
    unproven = dataclasses.replace(cause, findings=(dataclasses.replace(cause.findings[0], verified=False),))
    assert "NOT VERIFIED" in cause_page(unproven, tmp_path)


@pytest.mark.parametrize(("verified", "said"), [(True, "found the same when it was reduced"), (False, "NOT VERIFIED")])
def test_without_a_script_the_page_has_the_command_of_the_model_file(tmp_path: Path, verified: bool, said: str) -> None:
    cause, command = written(tmp_path), "mindgap diff a.mindgap -p onnxruntime/cpu"
    shown = dataclasses.replace(cause.findings[0], script="a.mindgap", command=command, short=False, verified=verified)
    page = cause_page(dataclasses.replace(cause, findings=(shown,)), tmp_path)
    assert f'<pre id="script-text">{command}</pre>' in page and said in page and "eager: 1.0\nFAULT" in page
    assert '<a href="a.mindgap">' in page and "Ran twice in fresh processes" not in page


def test_evidence_of_an_older_reduction_is_missing_and_a_script_is_not(tmp_path: Path) -> None:
    cause = written(tmp_path)
    file = evidence_file(tmp_path, "a.py")
    file.unlink()
    assert "<svg" not in cause_page(cause, tmp_path) and "aten.sin.default" in cause_page(cause, tmp_path)
    file.write_text('{"printed": 3}')
    with pytest.raises(MindgapError, match=r"a\.evidence\.json cannot be read"):
        cause_page(cause, tmp_path)
    file.unlink()
    (tmp_path / "a.py").unlink()
    with pytest.raises(MindgapError, match=r"a\.py cannot be read"):
        cause_page(cause, tmp_path)


def test_evidence_is_read_as_it_was_written(tmp_path: Path) -> None:
    written(tmp_path)
    file = evidence_file(tmp_path, "a.py")
    assert evidence_text(read_evidence(file)) == file.read_text()
    file.write_text(evidence_text(Evidence(metrics={"max_abs": float("inf")})))
    assert read_evidence(file).metrics.get("max_abs") == "inf"


def test_what_programs_say_is_text_and_never_markup(tmp_path: Path) -> None:
    nasty = '<script>alert(1)</script>"'
    cause = written(tmp_path)
    (tmp_path / "a.py").write_text(nasty)
    node = DrawnNode(nasty, (), (nasty,), "introduces", nasty)
    evidence_file(tmp_path, "a.py").write_text(evidence_text(Evidence(nasty, nasty, nasty, {}, (node,), (node,))))
    found = tuple(dataclasses.replace(each, title=nasty, origin=nasty) for each in cause.findings)
    bad = dataclasses.replace(
        cause, title=nasty, platforms=(nasty,), signature=nasty, stage=nasty, stage_evidence=(nasty,), cases=(nasty,),
        operators=(nasty,), findings=found, upstream=KnownIssue(f"https://x.org/{nasty}", nasty),
    )  # fmt: skip
    for page in (cause_page(bad, tmp_path), index_page([bad])):
        assert nasty not in page and "alert(1)</script>" not in page and "&lt;script&gt;alert(1)" in page


def test_only_web_addresses_become_links(tmp_path: Path) -> None:
    cause = written(tmp_path)
    for link, linked in (("https://example.org/1", True), ("javascript:alert(1)", False)):
        page = cause_page(dataclasses.replace(cause, upstream=KnownIssue(link)), tmp_path)
        assert (f'href="{link}"' in page) is linked and link in page


def test_nodes_are_below_what_they_read_and_do_not_overlap() -> None:
    nodes = chain(1000, 500)
    places = positions(nodes)
    assert all(places[read][1] < places[index][1] for index, node in enumerate(nodes) for read in node.reads)
    wide = (DrawnNode("a", (), ()), *(DrawnNode("b", (0,), ()) for _ in range(9)), DrawnNode("c", (3, 4), ()))
    second = sorted(x for x, layer in positions(wide) if layer == 1)
    assert len(second) == 9 and min(b - a for a, b in pairwise(second)) >= 148
    assert sum(second) == pytest.approx(9 * positions(wide)[0][0]), "the layer is in the middle below its operand"
    assert graph_svg(nodes, "x").count("<rect") == 1000


def test_a_reduction_writes_an_index_and_a_page_for_each_cause(tmp_path: Path) -> None:
    cause = written(tmp_path)
    CauseOutputs.checked(tmp_path, None, False, None).write([cause], ())
    assert page_name(cause) in (tmp_path / "index.html").read_text()
    assert (tmp_path / page_name(cause)).read_text() == cause_page(cause, tmp_path)
    assert not re.findall(r'(?:src|href)="(?!#|data:|cause-|index|[ab]\.py)', cause_page(cause, tmp_path))


def many(count: int) -> list[Cause]:
    cause = one_cause()
    names = ("critical", "high", "medium", "low")
    return [
        dataclasses.replace(cause, id=f"{n:010x}", title=f"title {n}", severity=names[n * 4 // count], rows=n % 97)  # type: ignore[arg-type]
        for n in range(count)
    ]


@pytest.mark.nightly
@pytest.mark.browser
@needs_driver
def test_the_index_filters_ten_thousand_causes(browser: Browser, tmp_path: Path) -> None:
    browser.open(index_page(many(10_000)), tmp_path)
    drawn = "#causes > tbody:not([hidden])"
    assert len(browser.texts(drawn)) == 200
    browser.choose("select[name=severity]", "low")
    browser.find("input[type=search]").send_keys("title 99")
    expected = sum("99" in str(n) for n in range(7_500, 10_000))
    assert browser.texts("form.filters output") == [f"{expected} of 10000 rows"]
    assert all(text.startswith("low") and "99" in text for text in browser.texts(drawn))
    browser.press("#causes th:nth-child(6) button")
    rows = [int(text) for text in browser.texts(f"{drawn} td:nth-child(6)")]
    assert rows == sorted(rows) and len(rows) == expected
    browser.press("button[type=reset]")
    browser.press("#causes th:nth-child(1) button")
    assert browser.texts(f"{drawn} td:first-child") == ["critical"] * 200
    assert not browser.complaints()


@pytest.mark.browser
@needs_driver
def test_the_script_is_copied_and_the_graph_zooms(browser: Browser, tmp_path: Path) -> None:
    browser.open(cause_page(written(tmp_path, 1000), tmp_path), tmp_path)
    browser.press("button[data-copy]")
    assert browser.clipboard() == SCRIPT

    def box() -> list[float]:
        view = browser.find(".picture:last-of-type svg").get_dom_attribute("viewBox")
        return [float(number) for number in (view or "").split()]

    def in_sight() -> int:
        """Nodes of the second picture whose middle is inside of it."""
        return browser.run(  # type: ignore[return-value]
            "const svg = document.querySelectorAll('svg.graph')[1], whole = svg.getBoundingClientRect();"
            "return [...svg.querySelectorAll('g[transform]')].filter((each) => {"
            " const r = each.getBoundingClientRect(), y = r.top + r.height / 2;"
            " return whole.top < y && y < whole.bottom; }).length"
        )

    last = ".picture:last-of-type "
    browser.run("document.querySelectorAll('svg.graph')[1].scrollIntoView()")
    assert 3 < in_sight() < 100, "a large graph begins where the difference begins, and can be read"
    middle = browser.run(
        "const svg = document.querySelectorAll('svg.graph')[1].getBoundingClientRect();"
        "const there = document.elementFromPoint(svg.left + svg.width / 2, svg.top + svg.height / 2);"
        "return there.parentElement.className.baseVal"
    )
    assert middle == "role-introduces"
    browser.press(f"{last}[data-step=fit]")
    assert in_sight() == 1000
    before = box()
    browser.press(f"{last}[data-step=zoomIn]")
    assert box()[2] == pytest.approx(before[2] / 1.4)
    picture = browser.find(f"{last}svg")
    picture.send_keys("-")
    assert box() == pytest.approx(before)
    picture.send_keys("\ue014")  # arrow to the right
    assert box()[0] == pytest.approx(before[0] + before[2] / 8)
    browser.drag(f"{last}svg", 0, 50)
    assert box()[1] < before[1]
    assert not browser.complaints()
