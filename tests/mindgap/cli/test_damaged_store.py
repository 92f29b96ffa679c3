"""A damaged file of a store, a catalogue or a campaign is named by the command that opens it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mindgap.cli import main
from mindgap.graph import Graph, Input, Literal, Node, Ref, TensorSpec
from mindgap.results.recording import Recording, recording
from mindgap.results.rows import Model, Row
from mindgap.results.settings import RunSettings
from mindgap.results.store import Store
from mindgap.run.identity import digest_of
from mindgap.run.outcome import Outcome

SPEC = TensorSpec.contiguous("float32", (2,))
GRAPH = Graph((Input(SPEC, Literal(bytes(8))),), (Node("aten.relu.default", (Ref(0),), (), (SPEC,)),), (1,))


def flipped(data: bytes, at: int) -> bytes:
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


HARMS: dict[str, Callable[[bytes], bytes]] = {
    "cut in half": lambda data: data[: len(data) // 2],
    "one byte short": lambda data: data[:-1],
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "flipped early": lambda data: flipped(data, len(data) // 4),
    "flipped in the middle": lambda data: flipped(data, len(data) // 2),
    "flipped late": lambda data: flipped(data, -12),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run of two rows."""
    folder = tmp_path_factory.mktemp("store") / "whole"
    store = Store(folder)
    outcome = Outcome("cpu/eager", digest_of(GRAPH), "crash", message="it crashed")
    with recording(store, RunSettings(), lambda _: {}) as record:
        _written(record, outcome)
    return folder


def _written(record: Recording, outcome: Outcome) -> None:
    record.begin("2026-11-22T10:00:00+00:00", "0.1.0", (), ["cpu/jit", "cpu/eager"])
    record.graph("model", GRAPH)
    record.model(0, Model("model", outcome.graph, 1, 1, ("float32[2]",), ("float32[2]",), "crash"), outcome)
    for platform in ("cpu/jit", "cpu/eager"):
        row = Row("model", platform, "crash", "failed", timings={"judge": 1.0})
        record.row(GRAPH, row, Outcome(platform, outcome.graph, "crash"))
    record.finish(1.0)


def commands(store: Path, page: Path) -> list[list[str]]:
    return [["report", str(store), "-o", str(page)], ["study", "gap", str(store)]]


def opened(file: Path) -> bool:
    """Whether the commands read the file: a study reads the table of graphs, and none of them a graph."""
    return file.parts[-2] != "graphs" and file.suffix != ".graph"


def test_the_whole_store_is_read(whole: Path, tmp_path: Path) -> None:
    for command in commands(whole, tmp_path / "page.html"):
        assert main(command) == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_file_is_named(whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], harm: str) -> None:
    files = [file for file in sorted(whole.rglob("*")) if file.is_file() and opened(file)]
    assert len(files) == 8
    for file in files:
        store = tmp_path / "store"
        shutil.copytree(whole, store)
        damaged = store / file.relative_to(whole)
        damaged.write_bytes(HARMS[harm](damaged.read_bytes()))
        for command in commands(store, tmp_path / "page.html"):
            capfd.readouterr()
            assert main(command) == 2, (file, command)
            said = capfd.readouterr().err
            assert str(damaged) in said, said
            assert len(said.splitlines()) == 1, said
        shutil.rmtree(store)


def test_lost_rows_are_missed(whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for table in ("models", "outcomes", "verdicts", "weaknesses"):
        store = tmp_path / table
        shutil.copytree(whole, store)
        for segment in (store / "tables" / table).iterdir():
            segment.unlink()
        for command in commands(store, tmp_path / "page.html"):
            capfd.readouterr()
            assert main(command) == 2, (table, command)
            said = capfd.readouterr().err
            assert f"{store}/tables/{table}: " in said and "rows of run" in said, said
            assert len(said.splitlines()) == 1, said


def test_a_store_without_its_marker_is_no_store(whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "store"
    shutil.copytree(whole, store)
    (store / "mindgap-store.json").unlink()
    for command in commands(store, tmp_path / "page.html"):
        assert main(command) == 2
        assert "there is no mindgap-store.json in it" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "campaign.json is gone: copy it again"),
        ("", "campaign.json cannot be read"),
        ("[]", "campaign.json is damaged"),
        ('{"format": "mindgap-campaign"}', "campaign.json is of version None"),
        ('{"format": "mindgap-campaign", "version": 1}', "campaign.json is damaged"),
        ('{"format": "mindgap-campaign", "version": 1, "plan": {}, "shard": "0/1"}', "campaign.json is damaged"),
    ],
)
def test_a_damaged_campaign_directory_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], content: str | None, says: str
) -> None:
    (tmp_path / "campaign.toml").write_text("seed = 1\n")
    if content is not None:
        (tmp_path / "campaign.json").write_text(content)
    for command in ("status", "findings", "resume"):
        assert main(["campaign", command, str(tmp_path)]) == 2
        said = capfd.readouterr().err
        assert f"{tmp_path}/{says}" in said, said
        assert len(said.splitlines()) == 1, said
