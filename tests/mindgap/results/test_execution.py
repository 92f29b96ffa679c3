"""A platform that no hardware runs is marked wherever it is shown."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

from mindgap.cli.tables import print_report
from mindgap.findings.script.form import ScriptForm, script_source
from mindgap.findings.script.script_platform import ScriptPlatform
from mindgap.report import html_page
from mindgap.results.from_store import report_of
from mindgap.results.report_json import decode_report, encode_report
from mindgap.results.store import Store
from mindgap.workflows.diff import Report
from report.report_sample import PLATFORMS, sample
from results.test_from_store import recorded


def emulated() -> Report:
    """The sample; its first platform is emulated."""
    report = sample()
    facts = [
        dataclasses.replace(fact, execution="emulated") if fact.platform == PLATFORMS[0] else fact
        for fact in report.platforms
    ]
    return dataclasses.replace(report, platforms=tuple(facts))


def test_tables_and_the_page_mark_every_row_of_it() -> None:
    out = io.StringIO()
    print_report(emulated(), out)
    assert f"[1] {PLATFORMS[0]} (emulated)" in out.getvalue()
    assert out.getvalue().count("emulated") == 1
    page = html_page(emulated())
    rows = sum(row.platform == PLATFORMS[0] for row in sample().rows)
    assert page.count(f'<td data-label="on">{PLATFORMS[0]} (emulated)</td>') == rows
    assert page.count("<small>emulated</small>") == 2  # the matrix of verdicts, that of classes
    assert ">AMD EPYC, emulated<" in page
    assert "emulated" not in html_page(sample())


def test_it_stays_in_json_and_in_a_store(tmp_path: Path) -> None:
    assert decode_report(encode_report(emulated())).executions == {PLATFORMS[0]: "emulated"}
    store = Store(tmp_path)
    recorded(store, report=emulated())
    assert report_of(store).executions == {PLATFORMS[0]: "emulated"}


def test_what_was_found_of_its_arithmetic_is_shown_beside_it(tmp_path: Path) -> None:
    words = "arithmetic checked: 5 of 14 exact"
    facts = [dataclasses.replace(each, arithmetic=words) if each.execution else each for each in emulated().platforms]
    report = dataclasses.replace(emulated(), platforms=tuple(facts))
    assert html_page(report).count(f"<small>emulated, {words}</small>") == 2
    assert f">AMD EPYC, emulated, {words}<" in html_page(report)
    store = Store(tmp_path)
    recorded(store, report=report)
    for kept in (decode_report(encode_report(report)), report_of(store)):
        assert kept.execution_words(PLATFORMS[0]) == f"emulated, {words}"


def test_a_script_says_that_no_hardware_ran_it() -> None:
    cases = "class Model(torch.nn.Module):\n    pass\n\n\nCASES = {}"
    target = ScriptPlatform("cpu/jit", execution="emulated: cortex-a72 by qemu-aarch64 7.2.22")
    script = script_source(ScriptForm("Something is wrong", target, cases=cases))
    assert "cpu/jit was not run by hardware (emulated: cortex-a72 by qemu-aarch64 7.2.22)." in script


def test_a_script_of_a_host_says_where_it_must_run() -> None:
    cases = "class Model(torch.nn.Module):\n    pass\n\n\nCASES = {}"
    script = script_source(ScriptForm("Something is wrong", ScriptPlatform("cpu/jit", host="edge"), cases=cases))
    assert "It must run on host edge: another machine may not show it." in script
