"""Renders one case of a campaign as a stand-alone script, with what was recorded of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from mindgap.campaign.cases.bundle import BUNDLE, BundleSource
from mindgap.campaign.cases.case import BLOCK
from mindgap.campaign.cases.variants import POOL, pool_in
from mindgap.campaign.results.findings import reference_of
from mindgap.campaign.state.directory import CampaignDirectory
from mindgap.compare.digest import SAMPLE
from mindgap.graph import Graph, MindgapError, TensorStore, default_tensor_store, digest, materialise_all
from mindgap.platforms.protocol import PlatformError
from mindgap.platforms.registry import environment, find, parse
from mindgap.script import Recorded, Script, Target, render
from mindgap.store import StoreError
from mindgap.synth.merging.merge import Merger
from mindgap.synth.merging.variant import Variant

#: Columns of a row that a script repeats, where they are filled in.
_TOLD: Final = (
    "word", "status", "blame", "culprit_node", "culprit_op", "max_abs", "max_ulp", "n_differing", "nan_mismatch",
    "inf_mismatch", "worst_output", "detail", "op", "message", "signature",
)  # fmt: skip
_LONGEST: Final = 600


def script_of(
    folder: CampaignDirectory, row: Mapping[str, Any], *, node: int | None = None, beside: str = "",
    tensors: TensorStore | None = None,
) -> Script:  # fmt: skip
    """The script of a row as `rows_of_case` gives it. `node`: which one runs alone as well (default: the culprit).
    `beside`: the name of the file for large tensors.

    Raises `MindgapError` where the graph or a stored tensor is no longer to be had, and for a node that it has not.
    """
    graph = graph_of(folder, row)
    if node is not None and not 0 <= node < len(graph.nodes):
        raise MindgapError(f"--node {node}: case {row['model']} has nodes 0 to {len(graph.nodes) - 1}")
    inputs = materialise_all(graph, tensors or default_tensor_store())
    platform, reference = (_target(folder, row["run"], row[side]) for side in ("platform", "reference"))
    alone = _culprit(row, graph) if node is None else node
    told = _recorded(folder, row)
    return render(
        graph, inputs, platform, reference, name=row["model"], culprit=alone, recorded=told, beside=beside
    )  # fmt: skip


def graph_of(folder: CampaignDirectory, row: Mapping[str, Any]) -> Graph:
    """The graph of a row: kept, described, or in the campaign's pack. Raises `MindgapError` where it is nowhere."""
    try:
        return folder.store.get_graph(row["graph"])
    except StoreError:
        graph = _described(folder, row) or _packed(folder, row)
    if graph is None:
        raise MindgapError(
            f"the graph of case {row['model']} is not kept, has no description and is in no pack in {folder.path}"
        )
    if digest(graph) != row["graph"]:
        raise MindgapError(f"the graph of case {row['model']} cannot be made again: {folder.path / POOL} has changed")
    return graph


def _described(folder: CampaignDirectory, row: Mapping[str, Any]) -> Graph | None:
    """Made again from the variant's description, where there is one."""
    found = folder.store.rows("SELECT variant FROM graphs WHERE graph = ?", [row["graph"]])
    if not found or not found[0]["variant"] or not (folder.path / POOL).exists():
        return None
    return Merger(pool_in(folder.path / POOL)).assembly(Variant.from_json(found[0]["variant"])).graph()


def _packed(folder: CampaignDirectory, row: Mapping[str, Any]) -> Graph | None:
    """Out of the pack that the campaign came in, where it did."""
    if folder.bundle is None:
        return None
    cases = BundleSource(folder.path / BUNDLE).block(row["position"] // BLOCK)
    return next((case.graph for case in cases if case.digest == row["graph"]), None)


def _target(folder: CampaignDirectory, run: str, name: str) -> Target:
    """The platform with the environment that its worker had. One that this machine does not know has none."""
    try:
        backend, _ = find(name)
        variables = environment(parse(name), backend)
    except PlatformError:
        variables = dict[str, str]()
    target = Target.of(name, variables)
    frontend = _frontend(folder, run, name) if target.device_mode == "openvino/cpu" else ""
    if frontend and "frontend" not in target.options:
        return Target(target.device_mode, {**target.options, "frontend": frontend}, variables)
    return target


def _frontend(folder: CampaignDirectory, run: str, platform: str) -> str:
    """By which front end OpenVINO took graphs in that run: a name in its description, ONNX where it tells of an
    exporter alone.
    """
    told = folder.store.rows(
        "SELECT description FROM platforms WHERE run = ? AND platform = ? AND fingerprint <> ''", [run, platform]
    )
    for row in told:
        description: dict[str, Any] = json.loads(row["description"] or "{}")
        if "frontend" in description:
            return str(description["frontend"])
        if "exporter" in description:
            return "onnx"
    return ""


def _culprit(row: Mapping[str, Any], graph: Graph) -> int | None:
    """The node at fault; of a failure, the only node of the operator that the platform named."""
    node = row["culprit_node"]
    if node is not None and 0 <= node < len(graph.nodes):
        return int(node)
    named = [index for index, each in enumerate(graph.nodes) if row["op"] and each.op == row["op"]]
    return named[0] if len(named) == 1 else None


def _recorded(folder: CampaignDirectory, row: Mapping[str, Any]) -> Recorded:
    told: dict[str, Any] = {name: _short(row[name]) for name in _TOLD if row.get(name) not in (None, "")}
    told["seed"], told["run"] = folder.plan.seed, row["run"]
    return Recorded(told, _words(told), _outputs(reference_of(folder, row)["outputs"]), _outputs(row["outputs"]))


def _short(value: Any) -> Any:
    return value[:_LONGEST] if isinstance(value, str) else value


def _words(told: Mapping[str, Any]) -> str:
    """What was recorded, for a person."""
    parts = [f"Recorded: {told['word']}"]
    if "culprit_op" in told:
        parts.append(f"culprit {told['culprit_op']} (node {told.get('culprit_node')})")
    if "blame" in told:
        parts.append(f"blamed on the {told['blame']}" if told["blame"] != "undecided" else "blame undecided")
    if "max_abs" in told:
        parts.append(f"largest absolute difference {told['max_abs']:.6g}")
    lines = [", ".join(parts) + "."]
    lines += [" ".join(str(told[name]).split()) for name in ("detail", "message") if name in told]
    return "\n".join(lines)


def _outputs(outputs: Any) -> list[Mapping[str, Any]]:
    return [
        {
            "dtype": o["dtype"],
            "shape": list(o["shape"]),
            "nan": o["nan"],
            "sampled": SAMPLE,
            "sample": list(o["sample"]),
        }
        for o in outputs or ()
    ]
