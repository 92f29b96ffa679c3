"""Defines what a program gave by the way of a platform's users, and reads it from a worker's answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

from mindgap.graph.compare.reason import Reason
from mindgap.own_path.sizes import SizeRun
from mindgap.platforms.name import PlatformName
from mindgap.run.channel import Array


@dataclass(frozen=True, slots=True)
class OwnRun:
    """What a program gave by the way of a platform's users.

    way: the call that exports or compiles it, such as `torch.onnx.export`; the name of a ready-made file (`file`).
    outputs: None where it gave none.
    eager: the program's outputs in eager mode, in the same process.
    other_arguments: other arguments of the same kind, fed to what was exported with the given ones; `other_outputs`,
        `other_eager`: the outputs on them. Empty where that was not tried.
    reason: why it gave none. failure_reasons: the same as data, where the message is known.
    refused: the runtime reports that it does not take the program.
    step, line, operator: the call that failed, the user's line and the custom operator, where known.
    file: it ran a ready-made file; `source_file`: the program's source is that file.
    fed: False where it was not tried, or the runner could not feed it: that is no fault of the platform.
    raised: the program itself fails in eager mode.
    absent: it was not tried because the program or the runtime is not in the environment where it was to run.
    environment: where it ran, if that is not the platform's own place.
    asked: what the program queries: a function, and the module and line that call it.
    warned: the user's line and the first sentence of what tracing warned of.
    training: modules in training mode that compute something else in evaluation mode.
    first: the source of the first of several sets of arguments, if the export has those and was fed others.
    dynamic: the source declares dynamic dimensions.
    by_order: inputs of the file that were matched by order or shape, and their arguments.
    second_outputs, second_eager: the outputs of a second call with the same arguments, where those in eager mode are
        others than the first call's. `changes`: the buffers and attributes that a call changes, and the user's line.
    unwritten: arguments that the program writes to in place, and its export does not.
    draws: the program draws random numbers from PyTorch's generator. repeats: it does not, and in eager mode a second
        call gives the outputs of the first.
    grown: arguments that a call changes: in place, by other elements of a container, by other fields of an object.
    """

    platform: PlatformName
    way: str
    outputs: tuple[Array, ...] | None
    eager: tuple[Array, ...] = ()
    other_arguments: tuple[Array, ...] = ()
    other_outputs: tuple[Array, ...] = ()
    other_eager: tuple[Array, ...] = ()
    reason: str = ""
    step: str = ""
    line: str = ""
    operator: str = ""
    fed: bool = True
    absent: bool = False
    environment: str = ""
    refused: bool = False
    raised: bool = False
    asked: tuple[tuple[str, str], ...] = ()
    training: tuple[str, ...] = ()
    warned: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0
    file: bool = False
    source_file: bool = False
    first: str = ""
    dynamic: bool = False
    by_order: tuple[tuple[str, str], ...] = ()
    second_outputs: tuple[Array, ...] = ()
    second_eager: tuple[Array, ...] = ()
    changes: tuple[tuple[str, str], ...] = ()
    unwritten: tuple[str, ...] = ()
    draws: bool = False
    repeats: bool = False
    grown: tuple[str, ...] = ()
    failure_reasons: tuple[Reason, ...] = ()

    @property
    def words(self) -> str:
        """What gave the outputs: `torch.onnx.export of the program`, or the name of the file."""
        where = f" in environment {self.environment}" if self.environment else ""
        first = " with its first arguments" if self.first else ""
        return self.way if self.file else f"{self.way} of the program{first}{where}"


@dataclass(frozen=True, slots=True)
class FileChanges:
    """How a ready-made ONNX file differs from a fresh export of the program.

    weights: the weights with other values, and the largest difference of each; infinity for another shape. `compared`:
        so many were compared.
    missing: weights that the file lacks.
    constants: constants that differ: what each is, its value in the file, and in the program.
    nodes: operators of which the file has another number of nodes, and how many more.
    start, line: the first node of the fresh export that differs, and the user's line.
    off: by which share of the largest magnitude values part there; 0 where values were not compared.
    reason: why they could not be compared.
    """

    weights: tuple[tuple[str, float], ...] = ()
    compared: int = 0
    missing: tuple[str, ...] = ()
    constants: tuple[tuple[str, str, str], ...] = ()
    nodes: tuple[tuple[str, int], ...] = ()
    start: str = ""
    line: str = ""
    reason: str = ""
    off: float = 0.0


@dataclass(frozen=True, slots=True)
class Located:
    """The innermost submodule that shows a difference or a failure by itself.

    path: empty for the whole program, none of whose submodules shows it alone.
    kind: its class.
    complete: all of its submodules were tried.
    step: what runs show of the steps of its export, in a sentence (`stages`).
    line: the user's line that calls it; empty for the whole program.
    declared: what its custom operators declare wrongly, in a sentence. unchecked: why that could not be checked.
    changes: how the ready-made file differs from the program, where that ran in place of an export.
    """

    path: str
    kind: str
    complete: bool = True
    step: str = ""
    line: str = ""
    declared: str = ""
    unchecked: str = ""
    changes: FileChanges | None = None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far the outputs of a program are from themselves in eager mode, of the largest magnitude.

    moved: if arguments and parameters move by eight units in the last place; infinity where that is not known.
    exact: if it computes in float64; infinity where it cannot.
    """

    moved: float = math.inf
    exact: float = math.inf


@dataclass(frozen=True, slots=True)
class ShownDifference:
    """What a submodule must show to be the one at fault.

    apart: how far the program's outputs are off; None where it fails.
    first: the source of the arguments that the export has, where it was fed others (`OwnRun.first`).
    others: it shows with other arguments of the same kind (`OwnRun.other_arguments`).
    at: the sizes at which it shows, as `SizeRun.words` has them.
    """

    apart: float | None
    first: str = ""
    others: bool = False
    at: str = ""


@dataclass(frozen=True, slots=True)
class FileNode:
    """A node of a model file that a runtime computes otherwise by itself, on the reference evaluator's operands.

    apart: how far it is off, of the largest magnitude; infinity for other shapes, dtypes or NaN; None where it fails.
    exact: the node in float64 agrees with the evaluator.
    nodes: how many nodes it takes; of several `name` is the last, and `op` joins the operators.
    example: the element, what the runtime gave, and what is right.
    """

    name: str
    op: str
    apart: float | None
    exact: bool = False
    nodes: int = 1
    message: str = ""
    example: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class FileNodes:
    """The nodes of a model file that a runtime computes otherwise, the first ones first.

    complete: all nodes were tried. reason: why none was. file: the name under which the first was written.
    """

    nodes: tuple[FileNode, ...] = ()
    complete: bool = True
    reason: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class SizedRuns:
    """Runs of one export at several sizes, the exported ones first. `left_out`: sizes that the program itself refuses.
    `reason`: why there are none, which is no fault of the platform. `at`: other sizes than those exported, where the
    export failed."""

    runs: tuple[SizeRun, ...]
    left_out: tuple[str, ...] = ()
    reason: str = ""
    at: str = ""


def located_of(header: Mapping[str, Any]) -> Located:
    """Reads the answer of `worker.Programs.locate`."""
    return Located(**{each.name: header[each.name] for each in fields(Located)})


def sensitivity_of(header: Mapping[str, Any]) -> Sensitivity:
    """Reads the answer of `worker.Programs.sensitivity`."""
    return Sensitivity(float(header["moved"]), float(header["exact"]))


def file_changes_of(header: Mapping[str, Any]) -> FileChanges:
    """Reads the answer of `worker.Programs.changes`."""
    lists: Mapping[str, list[Any]] = {name: header[name] for name in ("weights", "constants", "nodes")}
    pairs: dict[str, Any] = {name: tuple(tuple(each) for each in changes) for name, changes in lists.items()}
    others = {name: header[name] for name in ("compared", "start", "line", "reason", "off")}
    return FileChanges(**pairs, missing=tuple(header["missing"]), **others)


def file_nodes_of(header: Mapping[str, Any]) -> FileNodes:
    """Reads the answer of `worker.Programs.nodes`."""
    nodes: list[FileNode] = []
    for each in header["nodes"]:
        given: dict[str, Any] = {**each, "example": tuple(each["example"]) if each["example"] else None}
        nodes.append(FileNode(**given))
    return FileNodes(tuple(nodes), header["complete"], header["reason"], header["file"])


def own_run(
    platform: PlatformName, way: str, header: Mapping[str, Any], arrays: Sequence[Array], seconds: float,
    file: bool = False,
) -> OwnRun:  # fmt: skip
    """Reads the answer of `worker.Programs.run`."""
    left = iter(arrays)
    failure: Mapping[str, Any] = header["failure"] or {}
    groups = {name: tuple(islice(left, count)) for name, count in header.get("groups", {}).items()}
    return OwnRun(
        platform, way, groups.get("outputs"), groups.get("eager", ()), groups.get("other_arguments", ()),
        groups.get("other_outputs", ()), groups.get("other_eager", ()), failure.get("message", ""),
        failure.get("step", ""), failure.get("line", ""), failure.get("operator", ""),
        fed=not failure.get("ours", False), refused=failure.get("refused", False),
        asked=tuple((each[0], each[1]) for each in header["asked"]),
        training=tuple(header["training"]), warned=tuple((each[0], each[1]) for each in header.get("warned", ())),
        seconds=seconds, file=file, dynamic=bool(header.get("dynamic")),
        by_order=tuple((each[0], each[1]) for each in header.get("by_order", ())),
        second_outputs=groups.get("second_outputs", ()), second_eager=groups.get("second_eager", ()),
        changes=tuple((each[0], each[1]) for each in header.get("changes", ())),
        unwritten=tuple(header.get("unwritten", ())), draws=bool(header.get("draws")),
        repeats=bool(header.get("repeats")), grown=tuple(header.get("grown", ())),
        failure_reasons=(Reason(failure["kind"], names=tuple(failure["names"])),) if failure.get("kind") else (),
    )  # fmt: skip
