"""Runs subjects on every setting of the machine at hand and collects the observations; can be interrupted."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mindgap.graph import MindgapError, TensorStore
from mindgap.platforms.listing import platform_info
from mindgap.platforms.name import PlatformName, recorded
from mindgap.run.pool import WorkerPool
from mindgap_studies.machines.class_table import ClassTable, NewClass, NewMask
from mindgap_studies.machines.collected_file import FORMAT, VERSION, unpacked, write
from mindgap_studies.machines.description import this_machine
from mindgap_studies.machines.observations import Deviating, Machine, MachineObservations, Observation
from mindgap_studies.machines.observing import observe, one_line, structural_difference
from mindgap_studies.machines.settings import Setting
from mindgap_studies.machines.subjects.models import Suite
from mindgap_studies.machines.subjects.runnable import Runnable, compared_values
from mindgap_studies.results.json_lines import JsonLines

#: (platforms done, platforms in all, the platform that is done).
OnProgress = Callable[[int, int, str], None]
#: Graphs with further outputs that are compiled for one subject on one platform, at most.
PROBES: Final = 12
#: Facts of a worker's description that are kept with its platform.
_FACTS: Final = (
    *("capability", "onednn", "onednn_isa", "mkl_branch", "threads", "matmul_precision", "options", "versions"),
    *("precision_in_force", "intra_op_threads", "graph_optimization", "frontend", "exporter"),
)


@dataclass
class _State:
    probes: int
    table: ClassTable
    settings: dict[str, dict[str, Any]]
    observations: list[Observation]
    partial: JsonLines


def collect(
    path: Path,
    suite: Suite,
    settings: Sequence[Setting],
    *,
    budget_s: float = math.inf,
    probes: int = PROBES,
    on_progress: OnProgress = lambda done, total, name: None,
) -> MachineObservations:
    """Runs the suite on the settings, writes `path`, and returns what it holds.

    Finished settings are kept in `path.partial`; the same call goes on from there. `budget_s`: no further setting
    begins after so many seconds; the file then holds those that are done. `probes`: how many
    graphs with further outputs are compiled to look inside one subject on one platform that does not run node by node.
    Raises `MindgapError` if nothing ran, and if a partial file of another machine is in the way.
    """
    until = time.monotonic() + budget_s
    machine = this_machine()
    with tempfile.TemporaryDirectory(prefix="mindgap-machine-") as folder:
        store = TensorStore(folder)
        runnables = suite(store)
        partial = JsonLines(path.with_name(f"{path.name}.partial"))
        state = _begun(partial, _header(machine, runnables, settings, probes), probes)
        _restore(state, runnables, store)
        unfinished = False
        for number, setting in enumerate(settings):
            if setting.platform not in state.settings:
                if state.settings and time.monotonic() > until:
                    unfinished = True
                    break
                _run_setting(setting, runnables, state, store)
            on_progress(number + 1, len(settings), setting.platform)
    if not any(each.classes for each in state.observations):
        reasons = {str(facts.get("unavailable", "")) for facts in state.settings.values()} - {""}
        raise MindgapError(f"nothing ran on this machine: {'; '.join(sorted(reasons)) or 'every subject failed'}")
    found = _collected(machine, runnables, state)
    write(path, found)
    if not unfinished:
        state.partial.path.unlink(missing_ok=True)
    return found


def _header(
    machine: Machine, runnables: Sequence[Runnable], settings: Sequence[Setting], probes: int
) -> dict[str, Any]:
    described = {**dataclasses.asdict(machine), "collected": ""}
    text = json.dumps(
        [[r.subject.name, r.subject.digest] for r in runnables] + [s.platform for s in settings] + [probes]
    )
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"format": f"{FORMAT}, partial 2", "version": VERSION, "machine": described, "suite": digest}


def _begun(partial: JsonLines, header: Mapping[str, Any], probes: int) -> _State:
    """Takes what is in the partial file, or begins it. Raises `MindgapError` if it is of another machine or other
    subjects."""
    state = _State(probes, ClassTable(), {}, [], partial)
    if not partial.path.exists():
        partial.append(header)
        return state
    records = _records(partial)
    if not records or records[0] != json.loads(json.dumps(header)):
        raise MindgapError(
            f"{partial.path} was begun on another machine, with other versions or with other models: remove it"
        )
    partial.cut()
    for record in records[1:]:
        for entry in record["new"]:
            state.table.add(NewClass(**entry))
        for entry in record["masks"]:
            state.table.add_mask(NewMask(**entry))
        state.settings[record["platform"]] = record["facts"]
        state.observations += [
            Observation(subject, recorded(record["platform"]), status, tuple(classes), message)
            for subject, status, classes, message in record["observations"]
        ]
    return state


def _records(partial: JsonLines) -> list[dict[str, Any]]:
    """Returns the records; none of a file that is no partial file."""
    try:
        return [json.loads(line) for line in partial.read()]
    except ValueError:
        return []


def _run_setting(setting: Setting, runnables: Sequence[Runnable], state: _State, store: TensorStore) -> None:
    """Runs what belongs to the setting in a new process, and writes one record."""
    before = {key: len(classes) for key, classes in state.table.classes.items()}
    masks = len(state.table.masks)
    observations: list[Observation] = []
    # As far as it is known before a worker starts.
    info = None if setting.platform.is_import_path else platform_info(setting.platform)
    reason = "" if info is None or info.available else info.reason
    facts: dict[str, Any] = {"unavailable": one_line(reason)} if reason else {}
    if not reason:
        with WorkerPool([setting.platform], tensors=store, busy=1) as pool:
            description = pool.describe(setting.platform)
            facts = _facts(description)
            if "error" not in description:
                chosen = [each for each in runnables if each.groups & setting.groups]
                observations = [_observed(each, setting, state, pool) for each in chosen]
    classes = state.table.classes.items()
    new = [dataclasses.asdict(each) for key, found in classes for each in found[before.get(key, 0) :]]
    state.settings[setting.platform] = facts
    state.observations += observations
    rows = [[o.subject, o.status, o.classes, o.message] for o in observations]
    compared = list(map(dataclasses.asdict, state.table.masks[masks:]))
    record = {"platform": setting.platform, "facts": facts, "observations": rows, "new": new, "masks": compared}
    state.partial.append(record)


def _facts(description: Mapping[str, Any]) -> dict[str, Any]:
    if "error" in description:
        return {"unavailable": one_line(str(description["error"]))}
    facts = {name: description[name] for name in _FACTS if name in description}
    return facts if "versions" in facts else {**facts, "versions": {"torch": str(description.get("torch", ""))}}


def _observed(each: Runnable, setting: Setting, state: _State, pool: WorkerPool) -> Observation:
    name, table = each.subject.name, state.table
    seen = observe(each, setting.platform, pool.run, state.probes)
    if not seen.outcome.ran:
        return Observation(name, setting.platform, seen.outcome.status, (), one_line(seen.outcome.message))
    difference = structural_difference(each, seen.arrays)
    if difference:
        return Observation(name, setting.platform, "structural", (), difference)
    classes: list[int | None] = []
    for value in each.subject.values:
        array = seen.arrays.get(value.number)
        classes.append(None if array is None else table.number_of(name, value.number, array))
    compared = compared_values(each) if "float32" in setting.groups else frozenset[int]()
    if compared <= seen.arrays.keys():
        for number in sorted(compared):
            table.compare(name, number, seen.arrays[number])
    return Observation(name, setting.platform, seen.outcome.status, tuple(classes), seen.hidden)


def _restore(state: _State, runnables: Sequence[Runnable], store: TensorStore) -> None:
    """After an interruption, makes the arrays again with which elements are compared."""
    begun = {each.subject for each in state.table.masks}
    compared = {each.subject.name: compared_values(each) for each in runnables if each.subject.name in begun}
    places = {each.subject.name: [value.number for value in each.subject.values] for each in runnables}
    first: dict[str, PlatformName] = {}
    for observation in state.observations:
        name = observation.subject
        shown = {n for n, number in zip(places[name], observation.classes, strict=False) if number is not None}
        if name in compared and compared[name] <= shown:
            first.setdefault(name, observation.platform)
    for platform in dict.fromkeys(first.values()):
        with WorkerPool([platform], tensors=store, busy=1) as pool:
            for each in runnables:
                name = each.subject.name
                if first.get(name) != platform:
                    continue
                arrays = observe(each, platform, pool.run, state.probes).arrays
                if any(n not in arrays or not state.table.restore(name, n, arrays[n]) for n in compared[name]):
                    raise MindgapError(
                        f"{state.partial.path}: {platform} gives other values of {name} now than before the "
                        "interruption: remove that file and begin again"
                    )


def _collected(machine: Machine, runnables: Sequence[Runnable], state: _State) -> MachineObservations:
    table = state.table
    return MachineObservations(
        machine=machine,
        subjects=tuple(each.subject for each in runnables),
        settings=state.settings,
        observations=tuple(state.observations),
        prefixes={key: tuple(unpacked(each.prefixes) for each in classes) for key, classes in table.classes.items()},
        deviating=tuple(Deviating(s, v, some, whole) for (s, v), (some, whole) in table.deviating().items()),
    )
