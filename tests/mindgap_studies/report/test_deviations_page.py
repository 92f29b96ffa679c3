"""The page of a deviations study: its numbers are the overview's, it loads nothing, and a browser draws it."""

from __future__ import annotations

import dataclasses
import html
import re
from pathlib import Path

import pytest

from deviations.conftest import published, study  # noqa: F401
from deviations.test_overview import cells_of, counts_of
from deviations.test_own import collected
from mindgap_studies.deviations.overview import LayerProfile, Overview
from mindgap_studies.deviations.own import own_study
from mindgap_studies.deviations.own.overview import own_overview
from mindgap_studies.deviations.published import PublishedStudy
from mindgap_studies.deviations.published.overview import published_overview
from mindgap_studies.machines.merging import merged
from mindgap_studies.report.deviation_charts import layer_chart
from mindgap_studies.report.deviations_page import deviations_page
from mindgap_surveys.report.study_page import Cell, study_page
from report.browser import Browser, needs_driver


@pytest.fixture(scope="module")
def theirs(study: PublishedStudy) -> Overview:  # noqa: F811
    return published_overview(study)


@pytest.fixture(scope="module")
def own() -> Overview:
    found = merged({"one": collected()})
    return own_overview(found, own_study(found))


@pytest.fixture(params=["theirs", "own"])
def page(request: pytest.FixtureRequest) -> Overview:
    return request.getfixturevalue(request.param)


#: Pages that were written, by the identity of their overview, which is kept with them.
_WRITTEN: dict[int, tuple[Overview, str]] = {}


def written(page: Overview) -> str:
    if id(page) not in _WRITTEN:
        _WRITTEN[id(page)] = page, study_page(deviations_page(page, "1.2.3"))
    return _WRITTEN[id(page)][1]


def part(text: str, name: str) -> str:
    """The section of the page with this heading."""
    begin = text.index(f'<h2 id="{name}">')
    end = text.find("<h2 ", begin + 1)
    return text[begin : None if end < 0 else end]


def test_the_answers_stand_first(page: Overview) -> None:
    text = written(page)
    shown = re.findall(r'<b class="answer">(\d+)</b>', text)
    assert shown == [str(each.number) for each in page.answers]
    assert text.index('class="answer"') < text.index("<h2 ")


def test_the_matrix_has_the_text_of_every_cell(page: Overview) -> None:
    matrix = part(written(page), "classes").split("<tbody>", 1)[1]
    shown = re.findall(r"<td class=\"(?:k|k k1|other_input|not_run)\"[^>]*>([^<]*)</td>", matrix)
    assert shown == [cell.text for row in cells_of(page.grid) for cell in row]
    counted = re.findall(r'<td class="n[^"]*">(\d+)</td>', matrix.split("distinct results")[1].split("</tr>")[0])
    assert counted == list(map(str, counts_of(page.grid)))


def test_every_dendrogram_has_a_leaf_for_each_class(page: Overview) -> None:
    text = written(page)
    for name, trees in (("distances", page.trees), ("formats", page.casts)):
        if trees:
            drawn = part(text, name).split("<svg ")[1:]
            labels = [len(re.findall(r'<text text-anchor="start"[^>]*>\d+: ', each)) for each in drawn]
            assert labels == [len(tree.leaves) for tree in trees]


def test_every_table_is_there_with_its_definition(page: Overview) -> None:
    text = html.unescape(part(written(page), "tables"))
    for table in page.tables:
        begin = text.index(f'<details id="{table.name}">')
        shown = text[begin : text.index("</details>", begin)]
        assert table.note in shown and f"{len(table.rows):,} row" in shown
        assert shown.count("<tr>") == (min(250, len(table.rows)) + 1 if table.rows else 0)
        assert ("more rows" in shown) == (len(table.rows) > 250)


def test_the_page_loads_nothing(page: Overview) -> None:
    text = written(page)
    assert "<script" not in text and "@import" not in text and "url(" not in text
    links = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert set(re.findall(r'https?://[^"<\s]*', text)) <= {
        "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink",
    }  # fmt: skip
    assert all(f'id="{link[1:]}"' in text for link in links if link.startswith("#"))


def test_own_machines_have_layers_and_published_ones_have_claims(
    study: PublishedStudy,  # noqa: F811
    theirs: Overview,
    own: Overview,
) -> None:
    mine = written(own)
    assert part(mine, "layers").count('aria-label="node ') >= sum(len(profile.points) for profile in own.layers)
    assert 'id="paper"' not in mine and 'id="layers"' not in written(theirs)
    claims = part(written(theirs), "paper")
    rows = claims.split("<tbody>")[1].split("</tr>")[: len(study.claims)]
    agree = [re.findall(r"<td[^>]*>([^<]*)</td>", row)[4] == "yes" for row in rows]
    assert agree == [each.agrees for each in study.claims]


def test_what_a_machine_is_called_is_text_and_never_markup(own: Overview) -> None:
    nasty = '"><script>alert(1)</script>'
    point = {**own.layers[0].points[0], "operator": nasty, "module": nasty}
    layers = (dataclasses.replace(own.layers[0], title=nasty, points=(point,)),)
    grid = dataclasses.replace(own.grid, rows=((nasty, nasty, Cell("–", "not_run", nasty)),))
    text = written(dataclasses.replace(own, source=nasty, grid=grid, layers=layers))
    assert "<script" not in text and text.count(html.escape("<script>")) >= 7


def test_the_chart_of_layers_shows_bits_and_classes_at_their_heights() -> None:
    shown = {"platforms_that_show_it": 0, "their_classes": None, "their_remaining_precision": None}
    conv = {"operator": "aten.conv2d.default", "module": "conv", "kind": "convolution"}
    relu = {"operator": "aten.relu.default", "module": "", "kind": "activation"}
    first = {**conv, "classes": 4, "remaining_precision": 0, **shown}
    second = {**relu, "classes": 2, "remaining_precision": 23, **shown}
    drawn = layer_chart(LayerProfile("net", 9, 23, (first, second))).svg()
    assert "net: 9 platforms show every node" in drawn
    assert re.findall(r'aria-label="(node \d: [^"]*)"[^>]* transform="translate\([\d.]+,([\d.]+)\)"', drawn) == [
        ("node 1: aten.conv2d.default, conv", "160"), ("node 2: aten.relu.default", "0"),
    ]  # fmt: skip
    assert re.findall(r'roledescription="bar" d="M[\d.]+,[\d.]+h5v(\d+)', drawn) == ["80", "40"]


@pytest.mark.browser
@needs_driver
def test_a_browser_shows_it_wide_and_narrow_in_light_and_dark(browser: Browser, page: Overview, tmp_path: Path) -> None:
    text = written(page)
    emulate = browser.driver.execute_cdp_cmd
    grounds = set[str]()
    try:
        for mode in ("light", "dark"):
            emulate("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": mode}]})
            for width in (1280, 420):
                size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
                emulate("Emulation.setDeviceMetricsOverride", size)
                browser.open(text, tmp_path)
                assert browser.run("return document.documentElement.scrollWidth") <= width, "the page is too wide"
                assert not browser.complaints()
            grounds.add(str(browser.run("return getComputedStyle(document.body).backgroundColor")))
        # One colour per class within a column, besides the classes' numbers.
        columns = browser.run(
            "const rows = [...document.querySelector('table.study').querySelectorAll('tbody tr:not(.total)')];"
            "return [...rows[0].cells].slice(2).map((_, i) => rows.map((row) => row.cells[i + 2])"
            ".filter((each) => each.classList.contains('k'))"
            ".map((each) => [each.innerText.replace('*', ''), getComputedStyle(each).backgroundColor]))"
        )
    finally:
        emulate("Emulation.setEmulatedMedia", {"features": []})
        emulate("Emulation.clearDeviceMetricsOverride", {})
    assert len(grounds) == 2
    assert isinstance(columns, list) and len(columns) == len(page.grid.columns) - 2
    for number, cells in enumerate(columns):
        pairs = {tuple(each) for each in cells}
        assert len(pairs) == len({colour for _, colour in pairs}) == counts_of(page.grid)[number]
