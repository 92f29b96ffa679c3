"""The page: right numbers, everything inside, and a real browser that finds nothing to complain of."""

from __future__ import annotations

import dataclasses
import html
import math
import re
import subprocess
from pathlib import Path

import pytest
import vl_convert
from selenium.webdriver.support.wait import WebDriverWait

from mindgap.graph.compare.culprit import Example, culprit_of
from mindgap.platforms.name import CPU_EAGER, PlatformName
from mindgap.report import html_page
from mindgap.report.chart import COLOURS, difference_chart
from mindgap.report.finding_blocks import reduce_command
from mindgap.report.page import heading, letter_name, lettered, roots, sort_value
from mindgap.report.words import TERMS
from mindgap.results.drawn_graph import DrawnNode, SideStatistics, ValueDifference
from mindgap.results.report_json import decode_report
from mindgap.workflows.diff import Report, Row
from report.browser import CHROMIUM, QUIET, Browser, needs_chromium, needs_driver
from report.report_sample import PLATFORMS, sample, with_three_faults


def test_its_numbers_are_the_totals() -> None:
    report = sample()
    page = html_page(report)
    assert f'<b id="n-rows">{report.totals.rows}</b>' in page
    assert f'<b id="n-findings">{report.totals.findings}</b>' in page
    shown = dict(re.findall(r'data-word="(\w+)">(\d+)<', page))
    assert shown == {word: str(count) for word, count in report.totals.words.items()}


def test_every_row_is_in_the_matrix_and_every_finding_has_its_place() -> None:
    page = html_page(sample())
    matrix = page[page.index('id="matrix"') : page.index('id="roots"')]
    assert len(re.findall(r'<td class="w-', matrix)) == 12
    links = re.findall(r'href="#(r-\d+)"', matrix)
    assert len(set(links)) == 12 and all(f' id="{link}"' in page for link in links)


def test_the_mark_of_each_verdict_in_the_chart_has_an_area() -> None:
    """Marks are filled: of a shape without an area nothing is seen."""
    row = next(row for row in sample().rows if row.verdict == "rounding")
    for verdict in COLOURS:
        rows = (dataclasses.replace(row, verdict=verdict, faults=()),)
        svg = vl_convert.vegalite_to_svg(difference_chart(dataclasses.replace(sample(), rows=rows)))
        marks = re.findall(r'aria-label="[^"]*verdict: [^"]*"[^>]* d="([^"]*)"', svg)
        assert len(marks) == 1 and len(re.findall("[A-Za-z]", marks[0])) > 2, f"{verdict}: no more than a line"


def test_causes_count_every_finding_once() -> None:
    assert sum(len(root.rows) for root in roots(sample())) == len(sample().findings)


def test_alike_findings_are_one_cause() -> None:
    row = next(r for r in sample().rows if r.word == "reduced_precision")
    again = dataclasses.replace(row, model="tiny_bert", metrics={})
    report = dataclasses.replace(sample(), rows=(row, again))
    (root,) = roots(report)
    assert len(root.rows) == 2 and root.models == ["resnet18", "tiny_bert"]


def test_what_a_platform_says_is_text_and_never_markup() -> None:
    nasty = "<script>alert(1)</script>"
    rows = tuple(
        dataclasses.replace(r, message=nasty, detail=nasty, signature=nasty, model=nasty) for r in sample().rows
    )
    models = (dataclasses.replace(sample().models[0], name=nasty),)
    page = html_page(dataclasses.replace(sample(), rows=rows, models=models))
    assert nasty not in page
    assert html.escape(nasty) in page
    name = PlatformName("<b>/eager", {"a": "<i>"})
    assert "<wbr>" in heading(name) and "<b>" not in heading(name) and "<i>" not in heading(name)


def test_nothing_is_fetched() -> None:
    page = html_page(sample())
    assert not re.findall(r'(?:src|href)="(?!#|data:)', page.split("<script>")[0])
    assert "@import" not in page and "url(" not in page.split("</style>")[0]


def test_terms_have_the_words_of_the_glossary() -> None:
    glossary = (Path(__file__).parents[3] / "docs" / "glossary.md").read_text(encoding="utf-8")
    glossary = glossary.replace("`", "").replace(" (README.md lists all)", "")
    told = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", glossary, re.MULTILINE))
    assert {term: told[term] for term in TERMS} == TERMS
    assert f'title="{TERMS["culprit"]}">culprit</abbr>' in html_page(sample())


def test_a_finding_has_the_command_that_reduces_it() -> None:
    report = sample()
    commands = {(row.model, row.platform): reduce_command(report, row) for row in report.findings}
    named = [command for command in commands.values() if command]
    assert named == ["mindgap reduce timm:resnet18 -p openvino/cpu@precision=default"]
    page = html_page(dataclasses.replace(report, reference=PlatformName("cpu/jit")))
    assert f"{named[0]} --reference cpu/jit</pre>" in page and "This model came from Python" in page


def with_script(report: Report) -> Report:
    """The sample, its fourth row with an example and a script."""
    rows = list(report.rows)
    shown = Example("127 + 1", "127", "-128", True, "int8 wraps to -128")
    rows[3] = dataclasses.replace(rows[3], example=shown, script='import torch\nprint("<b>")\n')
    return dataclasses.replace(report, rows=tuple(rows))


def test_a_finding_shows_what_went_in_what_came_out_and_what_is_right() -> None:
    report = with_script(sample())
    page = html_page(report)
    assert "<code>127 + 1</code>" in page and "<code>-128</code> (int8 wraps to -128)" in page
    assert "print(&#34;&lt;b&gt;&#34;)" in page and "It was not run." in page
    assert "It was not run." not in html_page(sample())
    assert decode_report(report.to_json()).rows[3] == report.rows[3]


def test_each_fault_is_a_cause() -> None:
    report = with_three_faults()
    assert sum(len(root.rows) for root in roots(report)) == report.totals.faults == 7
    assert "5</b><span" in html_page(report) and " with 7 faults" in html_page(report)
    assert decode_report(report.to_json()) == report


def test_an_opened_row_says_what_a_delegate_ran() -> None:
    page = html_page(sample())
    assert "XNNPACK ran 20 of 22 operators in 3 parts; portable kernels ran aten.relu.default (2)" in page


def test_figures_sort_as_numbers() -> None:
    values = (1e-7, 3, None, math.inf, "inf", "-inf", math.nan)
    rows = [Row("m", PlatformName("p/q"), "ok", "rounding", {"max_abs": value}) for value in values]
    assert [sort_value(row, "max_abs") for row in rows] == ["1e-07", "3.0", "", "Infinity", "Infinity", "-inf", ""]


def test_letters_follow_the_classes() -> None:
    assert lettered(sample(), "resnet18") == {
        "cpu/eager": 0, PLATFORMS[0]: 0, PLATFORMS[1]: 1, PLATFORMS[2]: 1, PLATFORMS[3]: 2,
    }  # fmt: skip
    assert [letter_name(n) for n in (0, 25, 26, 27, 701, 702)] == ["A", "Z", "AA", "AB", "ZZ", "AAA"]


def test_a_report_of_nothing_says_so_loudly() -> None:
    row = Row("resnet18", PLATFORMS[0], "unsupported", None)
    page = html_page(dataclasses.replace(sample(), rows=(row,), refused=()))
    assert 'class="loud">Nothing was compared: every row is unsupported' in page


def browse(page: str, directory: Path) -> tuple[str, list[str]]:
    """The document as Chromium drew it, and its complaints: errors, and requests, which the page forbids itself."""
    file = directory / "page.html"
    file.write_text(page, encoding="utf-8")
    done = subprocess.run(
        [CHROMIUM, *QUIET, f"--user-data-dir={directory / 'profile'}", "--virtual-time-budget=8000", "--dump-dom",
         file.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.browser
@needs_chromium
@pytest.mark.parametrize("report", [sample(), Report(CPU_EAGER, (), (), ())], ids=["sample", "empty"])
def test_a_browser_draws_it_without_complaint_or_request(tmp_path: Path, report: Report) -> None:
    drawn, complaints = browse(html_page(report), tmp_path)
    assert not complaints
    assert f'id="n-rows">{report.totals.rows}<' in drawn
    if report.rows:
        chart = drawn[drawn.index('id="chart-precision"') :].split("</svg>")[0]
        assert 'class="marks"' in chart and "relative error" in chart, "the chart was not drawn"


@pytest.mark.browser
@needs_chromium
@pytest.mark.parametrize(
    "smuggled", ['<img src="http://example.invalid/x.png">', '<script>fetch("http://example.invalid/")</script>']
)
def test_the_page_lets_no_request_out(tmp_path: Path, smuggled: str) -> None:
    page = html_page(sample())
    _, complaints = browse(page.replace("</main>", f"{smuggled}</main>"), tmp_path)
    assert any("Content Security Policy" in line for line in complaints)


def many(count: int) -> Report:
    """The sample, `count` times, under other names."""
    report = sample()
    models = [dataclasses.replace(m, name=f"{m.name}_{n}") for n in range(count) for m in report.models]
    rows = [dataclasses.replace(r, model=f"{r.model}_{n}") for n in range(count) for r in report.rows]
    return dataclasses.replace(report, models=tuple(models), rows=tuple(rows))


DRAWN = "#all-rows > tbody:not([hidden]) > tr:first-child"


@pytest.mark.nightly
@pytest.mark.browser
@needs_driver
def test_a_thousand_rows_can_be_filtered_sorted_and_searched(browser: Browser, tmp_path: Path) -> None:
    browser.open(html_page(many(84)), tmp_path)
    count = "form.filters output"
    assert browser.texts(count) == ["1008 of 1008 rows"]
    assert len(browser.texts(DRAWN)) == 200
    browser.press("button[data-more]")
    assert len(browser.texts(DRAWN)) == 400

    browser.choose("select[name=platform]", "cpu/inductor")
    browser.choose("select[name=verdict]", "every finding")
    assert browser.texts(count) == ["168 of 1008 rows"]
    assert {text.split()[1] for text in browser.texts(DRAWN)} == {"cpu/inductor"}
    browser.find("input[type=search]").send_keys("SORT _7 ")
    names = [f"sorter_{n}" for n in (7, *range(70, 80))]
    assert [text.split()[0].strip("▸") for text in browser.texts(f"{DRAWN} td:first-child")] == names

    browser.press("#all-rows th:nth-child(1) button")
    browser.press("#all-rows th:nth-child(1) button")
    assert browser.find("#all-rows th:nth-child(1)").get_attribute("aria-sort") == "descending"
    assert browser.texts(f"{DRAWN} td:first-child") == sorted(names, reverse=True)

    browser.press("button[type=reset]")
    assert browser.texts(count) == ["1008 of 1008 rows"]
    browser.press("#roots + p + table tbody tr:nth-child(5) .link")
    assert browser.texts(count) == ["84 of 1008 rows"]
    assert {text.split()[2] for text in browser.texts(DRAWN)} == {"reduced"}
    assert not browser.complaints()


@pytest.mark.browser
@needs_driver
def test_the_heading_stays_in_sight(browser: Browser, tmp_path: Path) -> None:
    browser.open(html_page(many(84)), tmp_path)
    browser.run("document.querySelectorAll('#all-rows > tbody')[150].scrollIntoView()")
    assert browser.run("return document.querySelector('#all-rows th').getBoundingClientRect().top") == 0


@pytest.mark.browser
@needs_driver
def test_a_cell_of_the_matrix_opens_its_row_and_the_command_is_copied(browser: Browser, tmp_path: Path) -> None:
    browser.open(html_page(many(84)), tmp_path)
    browser.choose("select[name=verdict]", "identical")
    row = "#r-1000"  # of the 84th model, far below the first rows
    assert not browser.find(row).is_displayed()
    browser.press(f"a[href='{row}']")
    assert browser.find(f"{row} .detail").is_displayed()
    assert browser.find(f"{row} button").get_attribute("aria-expanded") == "true"
    browser.run("location.hash = '#r-4'")
    assert "conv1 (resnet.py:12)" in browser.find("#r-4 .detail").text
    browser.press("#r-4 button[data-copy]")
    assert browser.clipboard() == "mindgap reduce timm:resnet18 -p openvino/cpu@precision=default"
    browser.find("#r-4 button[aria-expanded]").send_keys("\n")
    assert not browser.find("#r-4 .detail").is_displayed()


@pytest.mark.browser
@needs_driver
def test_each_fault_of_a_row_is_a_line_with_its_script(browser: Browser, tmp_path: Path) -> None:
    browser.open(html_page(with_three_faults()), tmp_path)
    row = "#r-4"
    assert browser.texts(f"{row} td.op small") == ["aten.exp.default", "aten.tanh.default"]
    browser.run(f"location.hash = '{row}'")
    lines = browser.texts(f"{row} dd.fault")
    assert "aten.conv2d.default (nodes 3, 9)" in lines[0] and "known" not in lines[0]
    assert "aten.exp.default (node 5), blame platform, known: wrong <exp>" in lines[1]
    assert "aten.tanh.default (node 7) head (resnet.py:40), blame reference: NaN" in lines[2]
    browser.press(f"{row} button[data-copy='r-4-script-3']")
    assert browser.clipboard() == "print(7)\n"

    names = browser.texts("#roots + p + table tbody td.op")
    for op in ("conv2d", "exp", "tanh"):
        browser.press(f"#roots + p + table tbody tr:nth-child({names.index(op) + 1}) .link")
        assert browser.texts(f"{DRAWN} td:first-child") == ["resnet18"]
    browser.press("button[type=reset]")
    browser.find("input[type=search]").send_keys("tanh")
    assert browser.texts("form.filters output") == ["1 of 12 rows"]
    assert not browser.complaints()


def with_the_graph_around(report: Report, file: Path) -> Report:
    """The sample, its fourth row with the nodes around its culprit, of a model in a file."""
    near = ValueDifference(SideStatistics(-1.5, 2.25, 0.1234567), SideStatistics(-1.5, 2.25, 0.1234568, 3), 1e-7, 0.5)
    nodes = (
        DrawnNode("aten.relu.default", (), ("float32[1,8]",), "", "stem (net.py:2)", 2),
        DrawnNode("aten.conv2d.default", (0,), ("float32[1,4]",), "introduces", "conv1 (net.py:3)", 3, near),
    )
    rows, (first, *models) = list(report.rows), report.models
    rows[3] = dataclasses.replace(
        rows[3], culprit=culprit_of(3, "aten.conv2d.default", "conv1 (net.py:3)"), around=nodes
    )
    file.write_text("import torch\n\nx = conv1(x < 0)\n")
    models = (dataclasses.replace(first, source=f"{file}:make"), *models)
    return dataclasses.replace(report, rows=tuple(rows), models=models, created="")


def test_the_page_shows_the_graph_around_a_culprit_with_both_sides(tmp_path: Path) -> None:
    report = with_the_graph_around(sample(), tmp_path / "net.py")
    page = html_page(report)
    row = page[page.index('id="r-4"') :].split("</tbody>\n<tbody")[0]
    assert "<mark>   3  x = conv1(x &lt; 0)</mark>" in row
    assert row.count('<g class="role-') == 2 and 'class="role-introduces"' in row
    assert "-1.5 … 2.25<small>mean 0.1234567</small>" in row and "mean 0.1234568, 3 not finite" in row
    assert f"mindgap trace {tmp_path}/net.py:make -p openvino/cpu@precision=default</pre>" in row
    assert "float32[1,8]" in row and "stem (net.py:2)" in row
    assert decode_report(report.to_json()) == report


def test_an_export_finding_has_the_operators_of_its_submodule_and_no_command_that_reduces(tmp_path: Path) -> None:
    report = with_the_graph_around(sample(), tmp_path / "net.py")
    rows = list(report.rows)
    rows[3] = dataclasses.replace(
        rows[3], verdict="export", culprit=culprit_of(-1, "submodule stem", "stem (net.py:3)")
    )
    page = html_page(dataclasses.replace(report, rows=tuple(rows)))
    row = page[page.index('id="r-4"') :].split("</tbody>\n<tbody")[0]
    assert "Operators of the submodule" in row and "mindgap reduce" not in row
    assert f"mindgap diff {tmp_path}/net.py:make -p openvino/cpu@precision=default</pre>" in row
    other = dataclasses.replace(rows[3], culprit=culprit_of(-1, "submodule head", "head (net.py:9)"))
    found = roots(dataclasses.replace(report, rows=(rows[3], other)))
    assert [root.name for root in found] == [
        "resnet18: submodule stem, stem (net.py:3)", "resnet18: submodule head, head (net.py:9)"
    ]  # fmt: skip
    elsewhere = dataclasses.replace(rows[3], platform=rows[1].platform)
    (root,) = roots(dataclasses.replace(report, rows=(rows[3], elsewhere)))
    assert len(root.platforms) == 2, "one submodule that two platforms' exports change is one cause"


@pytest.mark.browser
@needs_driver
def test_a_narrow_window_shows_the_page_without_overlaps(browser: Browser, tmp_path: Path) -> None:
    browser.open(html_page(with_the_graph_around(sample(), tmp_path / "net.py")), tmp_path)
    size = browser.driver.get_window_size()
    beyond = "return [document.documentElement.scrollWidth, window.innerWidth]"
    overlaps = (
        "return [...document.querySelectorAll('#all-rows > tbody:not([hidden]) > tr:first-child')].some(row => "
        "{ const boxes = [...row.cells].map(cell => cell.getBoundingClientRect()); return boxes.some((a, i) => "
        "boxes.some((b, j) => i < j && a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && "
        "b.top < a.bottom - 1)); })"
    )
    try:
        for width in (500, 800, 1400):
            browser.driver.set_window_size(width, 900)
            wide, window = browser.run(beyond)
            assert wide <= window and not browser.run(overlaps), width
        browser.driver.set_window_size(500, 900)
        browser.run("document.querySelectorAll('#all-rows tr.detail').forEach(each => each.hidden = false)")
        wide, window = browser.run(beyond)
        assert wide <= window
    finally:
        browser.driver.set_window_size(size["width"], size["height"])


@pytest.mark.browser
@needs_driver
def test_the_graph_of_a_row_is_drawn_when_the_row_is_opened(browser: Browser, tmp_path: Path) -> None:
    browser.open(html_page(with_the_graph_around(sample(), tmp_path / "net.py")), tmp_path)
    box = "return document.querySelector('#r-4 svg.graph').viewBox.baseVal.width"
    before = browser.run(box)
    browser.run("location.hash = '#r-4'")
    WebDriverWait(browser.driver, 5).until(lambda _: browser.run(box) > before)
    names = "return [...document.querySelectorAll('#r-4 svg.graph text')].map((each) => each.textContent)"
    assert browser.run(names) == ["relu 2", "conv2d 3"]
    assert not browser.complaints()
