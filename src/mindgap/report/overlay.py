"""Writes captured graphs and the nodes that a difference reaches as files of Model Explorer (ai-edge-model-explorer).

A graph is a collection of its JSON format (`graph_builder.GraphCollection`); a row is node data for that graph
(`node_data_builder.ModelNodeData`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from mindgap.graph import Graph
from mindgap.graph.compare.culprit import DtypePolicy
from mindgap.report.words import word_text
from mindgap.results.drawn_graph import drawn_nodes, module_of, named_role
from mindgap.workflows.diff import Report, Row

#: The colours of roles: background and text.
_COLOURS: Final = {
    "introduces": ("#c9480b", "#ffffff"), "fails": ("#6d1212", "#ffffff"), "amplifies": ("#f0b541", "#3a2600"),
    "propagates": ("#dce9f6", "#17395c"), "masks": ("#c3dcd8", "#123b35"),
}  # fmt: skip


def overlay_files(report: Report, graphs: Mapping[str, Graph]) -> dict[str, str]:
    """Returns the texts of the files by name: a graph for each model, and data for each row whose nodes are known."""
    files = {_name(model, "graph"): json.dumps(_collection(model, graph)) for model, graph in graphs.items()}
    for row in report.rows:
        results = _results(row)
        if results and row.model in graphs:
            data = {row.model: {"name": f"{report.shown(row.platform)}: {word_text(row.word)}", "results": results}}
            files[_name(f"{row.model}.{row.platform}", "data")] = json.dumps(data, indent=1)
    return files


def _name(subject: str, kind: str) -> str:
    return f"{re.sub(r'[^A-Za-z0-9._@=,-]+', '_', subject)}.{kind}.json"


def _collection(model: str, graph: Graph) -> dict[str, Any]:
    nodes = [
        {
            "id": str(number),
            "label": node.op,
            "namespace": module_of(node.label).replace(".", "/"),
            "attrs": [{"key": "line", "value": node.label}, {"key": "results", "value": ", ".join(node.made)}],
            "incomingEdges": [{"sourceNodeId": str(read)} for read in node.reads],
        }
        for number, node in enumerate(drawn_nodes(graph, {}))
    ]
    return {"label": model, "graphs": [{"id": model, "nodes": nodes}]}


def _results(row: Row) -> dict[str, dict[str, str]]:
    roles = {node: role for node, _, role in row.nodes}
    for fault in row.independent_faults:
        nodes = fault.nodes if isinstance(fault.culprit, DtypePolicy) else ()
        roles |= named_role(fault.culprit, row.word, nodes)
    shown = {node: role for node, role in sorted(roles.items()) if role in _COLOURS}
    return {
        str(node): {"value": role, "bgColor": _COLOURS[role][0], "textColor": _COLOURS[role][1]}
        for node, role in shown.items()
    }
