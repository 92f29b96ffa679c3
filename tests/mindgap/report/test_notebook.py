"""Reports and rows in a notebook, and the example notebook, cell by cell."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from mindgap.cli.tables import print_report
from mindgap.workflows.diff import Report, Row
from report.report_sample import sample

NOTEBOOK = Path(__file__).parents[3] / "examples" / "notebook.ipynb"
#: Elements without an end.
VOID = {"br", "wbr", "img", "hr"}


class Elements(HTMLParser):
    """Collects elements and texts, and checks that each element ends where it should."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        assert not self.opened

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(value: Any) -> Elements:
    return Elements(value._repr_html_())


def test_a_report_shows_every_row_and_a_block_for_each_finding() -> None:
    report = sample()
    page = shown(report)
    classes = [about.get("class") or "" for tag, about in page.seen if tag == "span"]
    for row in report.rows:
        assert row.model in page.text and f"tag w-{row.word}" in classes
    blocks = [tag for tag, _ in page.seen if tag == "details"]
    assert len(blocks) == len(report.findings) == 5
    assert "conv1 (resnet.py:12)" in page.text and "no kernel <x>" in page.text
    assert not {"script", "iframe", "body", "b"} & {tag for tag, _ in page.seen}, "a fragment, with text escaped"


def test_styles_hold_inside_the_fragment_only() -> None:
    style = sample()._repr_html_().partition("<style>")[2].partition("</style>")[0]
    rules = [line for line in style.replace("} ", "}\n").splitlines() if "{" in line]
    selectors = [each.strip() for rule in rules for each in rule.partition("{")[0].split(",") if each.strip()]
    loose = [each for each in selectors if not each.startswith((".mindgap ", "td)"))]
    assert len(selectors) > 15 and not loose


def test_a_row_shows_itself() -> None:
    row = sample().rows[3]
    page = shown(row)
    assert "resnet18" in page.text and "conv1 (resnet.py:12)" in page.text and "tiny_bert" not in page.text
    assert "findings" not in page.text
    assert shown(sample().rows[0]).text.count("resnet18") == 1


def test_it_needs_no_extra() -> None:
    code = "import sys, mindgap.report.notebook; print(sorted({'altair', 'vl_convert', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_example_notebook_runs() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    names: dict[str, Any] = {}
    displayed: list[Any] = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == [] and cell["execution_count"] is None
        body = ast.parse("".join(cell["source"])).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            displayed.append(eval(compile(ast.Expression(last.value), "cell", "eval"), names))
    reports, rows = ([each for each in displayed if isinstance(each, kind)] for kind in (Report, Row))
    assert len(reports) == 1 and len(rows) == 1
    assert "cpu/jit" in shown(reports[0]).text and "cpu/jit" in shown(rows[0]).text


def test_a_printed_report_is_what_the_command_prints() -> None:
    report = sample()
    print_report(report, text := io.StringIO())
    assert str(report) == text.getvalue().rstrip() and report.findings[0].model in str(report)
