"""Makes one case of a campaign again: its graph, the platforms as they were, and a short script of its row."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import input_tensors, to_numpy
from mindgap.findings.reduction.model_file import diff_arguments
from mindgap.findings.reduction.reproducer import Reproducer, short_reproducer
from mindgap.findings.script.culprit_script import script_platform_of
from mindgap.graph import Graph, MindgapError, Stored, TensorStore, digest, extract, materialise_all
from mindgap.graph.compare.culprit import culprit_of
from mindgap.platforms.name import PlatformName, recorded
from mindgap.results.rows import Row
from mindgap.results.store import StoreError
from mindgap_campaign.campaign.cases.bundle import BUNDLE, BundleSource
from mindgap_campaign.campaign.cases.case import BLOCK
from mindgap_campaign.campaign.cases.variants import POOL, load_pool
from mindgap_campaign.campaign.state.directory import CampaignDirectory
from mindgap_campaign.synth.merging.merge import Merger
from mindgap_campaign.synth.merging.variant import Variant


def command_of(directory: CampaignDirectory, row: Mapping[str, Any]) -> tuple[str, ...]:
    """The arguments of `mindgap diff` after the file of the case, with which it runs as in a row of `rows_of_case`."""
    platform, reference = (platform_of(directory, row, side) for side in ("platform", "reference"))
    settings = replace(directory.plan.run_settings, reference=reference)
    return diff_arguments(platform, settings, row["word"])


def script_of(directory: CampaignDirectory, row: Mapping[str, Any], graph: Graph, tensors: TensorStore) -> Reproducer:
    """The short script that shows what a row found, run twice without mindgap; without text, the reason.

    `graph`: of the row, or a part of it that shows the same.
    """
    culprit = None if row["culprit_op"] is None else culprit_of(row["culprit_node"], row["culprit_op"])
    names = [platform_of(directory, row, side) for side in ("platform", "reference")]
    stored = Row(
        row["model"], names[0], row["status"], row["verdict"], culprit=culprit, blame=row["blame"],
        message=row["message"] or "", signature=row["signature"] or "", detail=row["detail"] or "",
    )  # fmt: skip
    if not stored.finding:
        return Reproducer("", False, "", reason=f"the row is {row['word']}, and a script shows a finding")
    try:
        platform, reference = map(script_platform_of, names)
    except MindgapError as error:
        return Reproducer("", False, "", reason=str(error))
    return short_reproducer(graph, materialise_all(graph, tensors), platform, reference, stored)


def node_alone(graph: Graph, node: int, tensors: TensorStore) -> Graph:
    """The graph of one node, on the operands that eager PyTorch gives it. Raises `MindgapError` for a wrong number."""
    if not 0 <= node < len(graph.nodes):
        raise MindgapError(f"--node {node}: the case has nodes 0 to {len(graph.nodes) - 1}")
    made = [value for value in graph.results(node) if graph.values[value] is not None]
    alone, borders = extract(graph, [node], made)
    before = Graph(graph.inputs, graph.nodes[:node], tuple(borders))
    values = Tape(before).run(input_tensors(before, materialise_all(before, tensors)))
    keys = [tensors.put(to_numpy(value)) for value in values]
    inputs = (replace(given, recipe=Stored(key)) for given, key in zip(alone.inputs, keys, strict=True))
    return replace(alone, inputs=tuple(inputs))


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
    rows = directory.store.rows("SELECT variant FROM graphs WHERE graph = ?", [row["graph"]])
    if not rows or not rows[0]["variant"] or not (directory.path / POOL).exists():
        return None
    pool = directory.path / POOL
    return _merger(pool, pool.stat().st_mtime_ns).assembly(Variant.from_json(rows[0]["variant"])).graph()


@functools.lru_cache(maxsize=1)
def _merger(pool: Path, _: int) -> Merger:
    """Prepares a pool, which takes seconds, once for all cases. `_`: when the file was last written."""
    return Merger(load_pool(pool))


def _packed(directory: CampaignDirectory, row: Mapping[str, Any]) -> Graph | None:
    """Reads the graph from the campaign's bundle; None if there is no bundle."""
    if directory.bundle is None:
        return None
    cases = BundleSource(directory.path / BUNDLE).block(row["position"] // BLOCK)
    return next((case.graph for case in cases if case.digest == row["graph"]), None)


def platform_of(
    directory: CampaignDirectory, row: Mapping[str, Any], side: Literal["platform", "reference"]
) -> PlatformName:
    """The name of a side of a row, with the options that were in force in its run where defaults have changed since."""
    name = recorded(row[side])
    if name.device_mode not in ("openvino/cpu", "onnxruntime/cpu"):
        return name
    return PlatformName(name.device_mode, {**_recorded_options(directory, row["run"], name), **name.options})


def _recorded_options(directory: CampaignDirectory, run: str, platform: PlatformName) -> dict[str, str]:
    """Returns the options of OpenVINO or ONNX Runtime in that run, from its description: defaults change.

    A description of OpenVINO that names only an exporter means the front end ONNX.
    """
    rows = directory.store.rows(
        "SELECT description FROM platforms WHERE run = ? AND platform = ? AND fingerprint <> ''", [run, platform]
    )
    options: dict[str, str] = {}
    for row in rows:
        description: dict[str, Any] = json.loads(row["description"] or "{}")
        if platform.device == "openvino" and ("frontend" in description or "exporter" in description):
            options["frontend"] = str(description.get("frontend", "onnx"))
        if description.get("precision_asked", "default") != "default":
            options["precision"] = str(description["precision_asked"])
        threads = description.get("threads") or description.get("intra_op_threads")
        if threads:
            options["threads"] = str(threads)
        if options:
            break
    return options
