"""The page of a coverage matrix: it loads nothing, filters, sorts, opens rows, and compares two platforms."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mindgap.platforms.name import parse
from mindgap.results.support_key import Key
from mindgap_surveys.report.coverage_page import MEANINGS, coverage_page
from mindgap_surveys.report.study_page import study_page
from mindgap_surveys.support.matrix import CELL_WORDS, Cell, Matrix
from mindgap_surveys.support.static_support import Disagreement, MeasuredLists, StaticList
from report.browser import Browser, needs_driver

JIT, ORT = parse("cpu/jit"), parse("onnxruntime/cpu@opt=off")
SAME = Cell("agrees", "the same bits", "identical")
HOSTILE = "</script><script>alert(1)</script> & <b>no kernel</b>"


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    keys = tuple(
        Key(f"aten.{name}.default", dtype, "contiguous")
        for name in ("_embedding_bag", "add", "linalg_qr", "tanh_backward")
        for dtype in ("float32", "float64")
    )
    there = dict.fromkeys(keys, SAME) | {
        Key("aten.linalg_qr.default", "float32", "contiguous"): Cell("refuses", HOSTILE),
        Key("aten.linalg_qr.default", "float64", "contiguous"): Cell("refuses", HOSTILE),
        Key("aten.add.default", "float64", "contiguous"): Cell("differs", "wrong", "discrepant", "aten.add.default"),
    }
    return Matrix(keys, {JIT: dict.fromkeys(keys, SAME), ORT: there}, {"mps/eager": "this is not macOS"}, {})


def test_numbers_are_the_matrix_s(matrix: Matrix) -> None:
    page = study_page(coverage_page(matrix, "1.2"))
    assert "4 operators, 8 combinations" in page and "this is not macOS" in page
    assert '<td class="n" title="aten.linalg_qr">0/1</td>' in page and "25.0 %" in page
    assert HOSTILE not in page and not re.search(r'(?:src|href)="http', page)
    data = json.loads(re.search(r'id="cells">(.*?)</script>', page, re.S)[1])  # type: ignore[index]
    dtype, layout, word, reason, other, why = data["rows"]["aten.linalg_qr.default"][0]
    assert (dtype, layout) == ("float32", "contiguous")
    assert (data["words"][word], data["reasons"][reason]) == ("agrees", "the same bits")
    assert (data["words"][other], data["reasons"][why]) == ("refuses", HOSTILE)
    pairs = json.loads(re.search(r'id="pairs">(.*?)</script>', page, re.S)[1])  # type: ignore[index]
    assert pairs == {"0>1": [2, 3], "1>0": [0, 0]}


def test_every_word_has_a_meaning_and_a_colour() -> None:
    style = (Path(__file__).parents[3] / "src/mindgap_surveys/report/coverage.css").read_text()
    assert set(MEANINGS) == set(CELL_WORDS)
    assert all(
        f".m-{word.replace(' ', '-')} " in style or f".m-{word.replace(' ', '-')}," in style for word in CELL_WORDS
    )


def test_lists_stand_beside_the_measurement(matrix: Matrix) -> None:
    lists = [StaticList("XPU", "torch==1", {}, "in another package"), StaticList("CPU", "torch==1", {})]
    listed = MeasuredLists(lists, {}, [Disagreement(JIT, "CPU", ("aten.add.default",), ())])
    page = study_page(coverage_page(matrix, "1", listed))
    assert "in another package" in page and "listed, and nothing runs" in page
    assert "What packages list" not in study_page(coverage_page(matrix, "1"))


@needs_driver
def test_a_browser_filters_compares_and_opens(browser: Browser, matrix: Matrix, tmp_path: Path) -> None:
    browser.open(study_page(coverage_page(matrix, "1")), tmp_path)
    names = "#operators tbody:not([hidden]) button.link"
    assert len(browser.texts(names)) == 4
    browser.choose("#source", JIT)
    browser.choose("#target", ORT)
    assert browser.texts(names) == ["aten.add.default", "aten.linalg_qr.default"]
    assert browser.run("return document.getElementById('apart').value") == (
        "2 operators lose something (3 dtypes and layouts); the other way: 0"
    )
    browser.press("#operators tbody:not([hidden]) button.link")
    assert browser.texts("#operators .cells td:nth-child(4)") == ["agrees", "differs"]
    assert any("differs: wrong" in each for each in browser.texts("#operators .reasons li"))
    browser.press("form button[type=reset]")
    assert len(browser.texts(names)) == 4 and browser.run("return document.getElementById('apart').value") == ""
    browser.choose("select[name=pass]", "backward")
    assert browser.texts(names) == ["aten.tanh_backward.default"]
    browser.press("form button[type=reset]")
    browser.choose("select[name=word]", "refuses")
    assert browser.texts(names) == ["aten.linalg_qr.default"]
    browser.press("form button[type=reset]")
    browser.press("#operators th:nth-child(5) button")
    browser.press("#operators th:nth-child(5) button")
    assert browser.texts(names)[0] == "aten.linalg_qr.default", "the worst first"
    assert browser.complaints() == []
