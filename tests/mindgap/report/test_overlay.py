"""Files for Model Explorer, by the fields of graph_builder.py and node_data_builder.py of its 0.1.34."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mindgap.cli import main

MODEL = """
import torch

def make():
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
    return layers.eval(), (torch.randn(4, 8),)
"""
WRONG = '[[fault]]\nkind = "scaled"\nfactor = 2.0\nwhen = { op = "aten.tanh.*" }\n'


def _closed(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {
        "type": "object", "required": list(required), "properties": properties, "additionalProperties": False,
    }  # fmt: skip


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


TEXT = {"type": "string"}
COLOUR = {"type": "string", "pattern": "^#[0-9a-f]{6}$"}
PAIR = _closed(("key", "value"), key=TEXT, value=TEXT)
EDGE = _closed(
    ("sourceNodeId",), sourceNodeId=TEXT, sourceNodeOutputId=TEXT, targetNodeInputId=TEXT, metadata=_list(PAIR)
)
NODE = _closed(
    ("id", "label"), id=TEXT, label=TEXT, namespace=TEXT, subgraphIds=_list(TEXT), attrs=_list(PAIR),
    incomingEdges=_list(EDGE), outputsMetadata=_list({}), inputsMetadata=_list({}),
)  # fmt: skip
COLLECTION = _closed(
    ("label", "graphs"), label=TEXT, graphs=_list(_closed(("id", "nodes"), id=TEXT, nodes=_list(NODE)))
)
RESULT = _closed(("value",), value={"type": ["number", "string"]}, bgColor=COLOUR, textColor=COLOUR)
NODE_DATA = {
    "type": "object",
    "additionalProperties": _closed(
        ("results",), results={"type": "object", "additionalProperties": RESULT}, name=TEXT, thresholds=_list({}),
        gradient=_list({}),
    ),
}  # fmt: skip


def test_graphs_and_what_a_difference_reaches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))
    Path("model.py").write_text(MODEL)
    Path("wrong.toml").write_text(WRONG)
    platforms = ["-p", "faulty/eager@faults=wrong.toml", "-p", "cpu/eager"]
    assert main(["diff", "model.py:make", *platforms, "--no-own-path", "--overlay", "out/overlay"]) == 1
    graph_file, data_file = sorted(Path("out/overlay").iterdir(), key=lambda path: path.suffixes[-2], reverse=True)
    collection, data = json.loads(graph_file.read_text()), json.loads(data_file.read_text())
    jsonschema.validate(collection, COLLECTION)
    jsonschema.validate(data, NODE_DATA)
    (graph,) = collection["graphs"]
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert [node["label"] for node in graph["nodes"]] == [
        "aten.linear.default",
        "aten.tanh.default",
        "aten.linear.default",
    ]
    assert nodes["1"]["incomingEdges"] == [{"sourceNodeId": "0"}] and nodes["2"]["namespace"] == "2"
    assert list(data) == [graph["id"]], "node data names the graph it is for"
    results = data[graph["id"]]["results"]
    assert results.keys() <= nodes.keys()
    assert results["1"]["value"] == "introduces" and results["2"]["value"] != "introduces" and "0" not in results
    assert data[graph["id"]]["name"].endswith("discrepant")


def test_a_file_in_its_place_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["diff", "model.py:make", "-p", "cpu/jit", "--overlay", str(tmp_path / "file")]) == 2
    assert "is not a directory" in capfd.readouterr().err
