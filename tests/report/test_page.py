"""The page: right numbers, everything inside, and a real browser that finds nothing to complain of."""

from __future__ import annotations

import dataclasses
import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mindgap.diff import Report, Row
from mindgap.report import html_page
from mindgap.report.page import heading, letter_name, lettered, roots
from report.report_sample import PLATFORMS, sample

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine")
#: The browser keeps quiet itself: no name resolves for it.
QUIET = (
    "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr",
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip


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
    links = re.findall(r'href="#(f-\d+)"', matrix)
    assert len(links) == 5 and all(f'<tr id="{link}"' in page for link in links)


def test_causes_count_every_finding_once() -> None:
    assert sum(root.count for root in roots(sample())) == len(sample().findings)


def test_alike_findings_are_one_cause() -> None:
    row = next(r for r in sample().rows if r.word == "reduced_precision")
    again = dataclasses.replace(row, model="tiny_bert", metrics={})
    report = dataclasses.replace(sample(), rows=(row, again))
    (root,) = roots(report)
    assert root.count == 2 and list(root.models) == ["resnet18", "tiny_bert"]


def test_what_a_platform_says_is_text_and_never_markup() -> None:
    nasty = "<script>alert(1)</script>"
    rows = tuple(
        dataclasses.replace(r, message=nasty, detail=nasty, signature=nasty, model=nasty) for r in sample().rows
    )
    models = (dataclasses.replace(sample().models[0], name=nasty),)
    page = html_page(dataclasses.replace(sample(), rows=rows, models=models))
    assert nasty not in page
    assert html.escape(nasty) in page
    assert "<wbr>" in heading("<b>/eager") and "<b>" not in heading("<b>/eager")


def test_nothing_is_fetched() -> None:
    page = html_page(sample())
    assert not re.findall(r'(?:src|href)="(?!#|data:)', page.split("<script>")[0])
    assert "@import" not in page and "url(" not in page.split("</style>")[0]


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
@pytest.mark.parametrize("report", [sample(), Report("cpu/eager", (), (), ())], ids=["sample", "empty"])
def test_a_browser_draws_it_without_complaint_or_request(tmp_path: Path, report: Report) -> None:
    drawn, complaints = browse(html_page(report), tmp_path)
    assert not complaints
    assert f'id="n-rows">{report.totals.rows}<' in drawn
    if report.rows:
        chart = drawn[drawn.index('id="chart-precision"') :].split("</svg>")[0]
        assert 'class="marks"' in chart and "bits that agree" in chart, "the chart was not drawn"


@pytest.mark.browser
@needs_chromium
@pytest.mark.parametrize(
    "smuggled", ['<img src="http://example.invalid/x.png">', '<script>fetch("http://example.invalid/")</script>']
)
def test_the_page_lets_no_request_out(tmp_path: Path, smuggled: str) -> None:
    page = html_page(sample())
    _, complaints = browse(page.replace("</main>", f"{smuggled}</main>"), tmp_path)
    assert any("Content Security Policy" in line for line in complaints)
