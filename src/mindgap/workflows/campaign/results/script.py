"""Renders one case of a campaign as a stand-alone script, with its recorded results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from mindgap.findings.script.culprit_script import target_of
from mindgap.findings.script.rendering import Script, render
from mindgap.findings.script.target import Recorded, Target
from mindgap.graph import Graph, MindgapError, TensorStore, default_tensor_store, digest, materialise_all
from mindgap.graph.compare.digest import SAMPLE
from mindgap.models.synth.merging.merge import Merger
from mindgap.models.synth.merging.variant import Variant
from mindgap.platforms.environments import EnvironmentProblem
from mindgap.platforms.protocol import PlatformError
from mindgap.results.store import StoreError
from mindgap.workflows.campaign.cases.bundle import BUNDLE, BundleSource
from mindgap.workflows.campaign.cases.case import BLOCK
from mindgap.workflows.campaign.cases.variants import POOL, load_pool
from mindgap.workflows.campaign.results.findings import reference_of
from mindgap.workflows.campaign.state.directory import CampaignDirectory

#: Columns of a row that a script repeats, where they are filled in.
_TOLD: Final = (
    "word", "status", "blame", "culprit_node", "culprit_op", "max_abs", "max_ulp", "n_differing", "nan_mismatch",
    "inf_mismatch", "worst_output", "detail", "op", "message", "signature",
)  # fmt: skip
_LONGEST: Final = 600


def script_of(
    directory: CampaignDirectory, row: Mapping[str, Any], *, node: int | None = None, beside: str = "",
    tensors: TensorStore | None = None,
) -> Script:  # fmt: skip
    """Renders the script of a row from `rows_of_case`. `node`: the node that also runs alone (default: the culprit).
    `beside`: the name of the file for large tensors.

    Raises `MindgapError` if the graph or a stored tensor is missing, or the graph has no such node.
    """
    graph = graph_of(directory, row)
    if node is not None and not 0 <= node < len(graph.nodes):
        raise MindgapError(f"--node {node}: case {row['model']} has nodes 0 to {len(graph.nodes) - 1}")
    inputs = materialise_all(graph, tensors or default_tensor_store())
    platform, reference = (_target(directory, row["run"], row[side]) for side in ("platform", "reference"))
    alone = _culprit(row, graph) if node is None else node
    recorded = _recorded(directory, row)
    return render(
        graph, inputs, platform, reference, name=row["model"], culprit=alone, recorded=recorded, beside=beside
    )  # fmt: skip


def graph_of(directory: CampaignDirectory, row: Mapping[str, Any]) -> Graph:
    """Finds the graph of a row: in the store, from its description, or in the bundle. Raises `MindgapError`."""
    try:
        return directory.store.get_graph(row["graph"])
    except StoreError:
        graph = _described(directory, row) or _packed(directory, row)
    if graph is None:
        raise MindgapError(
            f"the graph of case {row['model']} is not kept, has no description and is in no pack in {directory.path}"
        )
    if digest(graph) != row["graph"]:
        raise MindgapError(
            f"the graph of case {row['model']} cannot be made again: {directory.path / POOL} has changed"
        )
    return graph


def _described(directory: CampaignDirectory, row: Mapping[str, Any]) -> Graph | None:
    """Builds the graph from the variant's description; None if there is none."""
    found = directory.store.rows("SELECT variant FROM graphs WHERE graph = ?", [row["graph"]])
    if not found or not found[0]["variant"] or not (directory.path / POOL).exists():
        return None
    return Merger(load_pool(directory.path / POOL)).assembly(Variant.from_json(found[0]["variant"])).graph()


def _packed(directory: CampaignDirectory, row: Mapping[str, Any]) -> Graph | None:
    """Reads the graph from the campaign's bundle; None if there is no bundle."""
    if directory.bundle is None:
        return None
    cases = BundleSource(directory.path / BUNDLE).block(row["position"] // BLOCK)
    return next((case.graph for case in cases if case.digest == row["graph"]), None)


def _target(directory: CampaignDirectory, run: str, name: str) -> Target:
    """Returns the platform with its worker's environment variables; none for a platform unknown here."""
    try:
        target = target_of(name)
    except (PlatformError, EnvironmentProblem):
        target = Target.of(name)
    if target.device_mode not in ("openvino/cpu", "onnxruntime/cpu"):
        return target
    recorded = _recorded_options(directory, run, name)
    return replace(target, options={**recorded, **target.options})


def _recorded_options(directory: CampaignDirectory, run: str, platform: str) -> dict[str, str]:
    """Returns the options of OpenVINO or ONNX Runtime in that run, from its description: defaults change.

    A description of OpenVINO that names only an exporter means the front end ONNX.
    """
    rows = directory.store.rows(
        "SELECT description FROM platforms WHERE run = ? AND platform = ? AND fingerprint <> ''", [run, platform]
    )
    found: dict[str, str] = {}
    for row in rows:
        description: dict[str, Any] = json.loads(row["description"] or "{}")
        if platform.startswith("openvino/") and ("frontend" in description or "exporter" in description):
            found["frontend"] = str(description.get("frontend", "onnx"))
        if description.get("precision_asked", "default") != "default":
            found["precision"] = str(description["precision_asked"])
        threads = description.get("threads") or description.get("intra_op_threads")
        if threads:
            found["threads"] = str(threads)
        if found:
            break
    return found


def _culprit(row: Mapping[str, Any], graph: Graph) -> int | None:
    """Returns the culprit node; for a failure, the only node of the operator that the platform named."""
    node = row["culprit_node"]
    if node is not None and 0 <= node < len(graph.nodes):
        return int(node)
    named = [index for index, each in enumerate(graph.nodes) if row["op"] and each.op == row["op"]]
    return named[0] if len(named) == 1 else None


def _recorded(directory: CampaignDirectory, row: Mapping[str, Any]) -> Recorded:
    recorded: dict[str, Any] = {name: _short(row[name]) for name in _TOLD if row.get(name) not in (None, "")}
    recorded["seed"], recorded["run"] = directory.plan.seed, row["run"]
    return Recorded(
        recorded, _words(recorded), _outputs(reference_of(directory, row)["outputs"]), _outputs(row["outputs"])
    )


def _short(value: Any) -> Any:
    return value[:_LONGEST] if isinstance(value, str) else value


def _words(recorded: Mapping[str, Any]) -> str:
    """Formats the recorded values for a person."""
    parts = [f"Recorded: {recorded['word']}"]
    if "culprit_op" in recorded:
        parts.append(f"culprit {recorded['culprit_op']} (node {recorded.get('culprit_node')})")
    if "blame" in recorded:
        parts.append(f"blamed on the {recorded['blame']}" if recorded["blame"] != "undecided" else "blame undecided")
    if "max_abs" in recorded:
        parts.append(f"largest absolute difference {recorded['max_abs']:.6g}")
    lines = [", ".join(parts) + "."]
    lines += [" ".join(str(recorded[name]).split()) for name in ("detail", "message") if name in recorded]
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
