"""The list of public reports is consistent: links, fields and programs."""

import importlib.util
import inspect
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "rediscovery"


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"rediscovery_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


run = module(FOLDER / "run.py")
REPORTS = run.reports()


def test_links_are_unique_and_no_report_is_rejected_too() -> None:
    links = [each.link for each in REPORTS]
    rejected = tomllib.loads((FOLDER / "rejected.toml").read_text(encoding="utf-8"))["report"]
    assert len(set(links)) == len(links) >= 80
    assert not set(links) & {each["link"] for each in rejected}
    assert all(each["reason"] and each["link"].startswith("https://github.com/") for each in rejected)


def test_every_field_is_there() -> None:
    for each in REPORTS:
        assert each.kind in ("wrong", "fails", "crashes") and each.operators, each
        assert all((each.claim, each.platform, each.package, each.version, each.measured)), each
        assert each.link.startswith("https://github.com/"), each


def test_a_third_is_put_aside() -> None:
    assert 0.25 < sum(each.aside for each in REPORTS) / len(REPORTS) < 0.42


@pytest.mark.parametrize("file", sorted({each.program.partition(":")[0] for each in REPORTS}))
def test_programs_of_the_list_run_in_eager_mode_and_no_other_is_there(file: str) -> None:
    programs = module(FOLDER / "programs" / f"{file}.py")
    listed = {each.program.partition(":")[2] for each in REPORTS if each.program.startswith(f"{file}:")}
    written = {
        name
        for name, value in vars(programs).items()
        if inspect.isfunction(value)
        and value.__module__ == programs.__name__
        and not inspect.signature(value).parameters
    }
    assert written == listed
    for name in listed:
        call, args = getattr(programs, name)()
        call(*args)


def test_an_answer_is_right_where_a_finding_names_an_operator_of_the_report() -> None:
    report = next(each for each in REPORTS if each.program == "exported:erfcx")
    row = {
        "model": report.program, "verdict": "discrepant", "status": "ok", "broken": "", "message": "", "detail": "far",
        "own_path": None, "culprit": {"op": "aten.special_erfcx.default"}, "faults": [],
    }  # fmt: skip
    calm = {**row, "verdict": "rounding", "culprit": None}
    other = {**row, "culprit": {"op": "aten.mul.Tensor+aten.add.Tensor"}}
    for each, right in ((row, (True, True)), (calm, (False, False)), (other, (True, False))):
        answer = run.answers({"rows": [each], "refused": []}, [report])[report.link]
        assert (answer.shows(), answer.names(report)) == right
    refused = {"source": report.source, "reason": "it cannot be read"}
    assert not run.answers({"rows": [], "refused": [refused]}, [report])[report.link].shows()
