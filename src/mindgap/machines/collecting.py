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

from mindgap.compare.digest import digest_array
from mindgap.graph import MindgapError, TensorStore
from mindgap.machines.class_table import ClassTable, NewClass
from mindgap.machines.collected_file import FORMAT, VERSION, write
from mindgap.machines.convolution_algorithms import observed_algorithms
from mindgap.machines.description import this_machine
from mindgap.machines.observations import Collected, Deviating, Machine, Observation
from mindgap.machines.partial_file import PartialFile
from mindgap.machines.settings import Setting
from mindgap.machines.subjects.runnable import ACTIVATIONS, Runnable
from mindgap.machines.subjects.suite import Suite
from mindgap.run.outcome import Array, Job, Outcome
from mindgap.run.pool import WorkerPool

#: (platforms done, platforms in all, the platform that is done).
OnProgress = Callable[[int, int, str], None]
_DEADLINE_S: Final = 300.0
#: Facts of a worker's description that are kept with its platform.
_FACTS: Final = ("capability", "onednn", "onednn_isa", "mkl_branch", "threads", "matmul_precision", "options")


@dataclass
class _State:
    """What is known so far, and where it is written."""

    table: ClassTable
    settings: dict[str, dict[str, Any]]
    observations: list[Observation]
    partial: PartialFile


def collect(
    path: Path,
    suite: Suite,
    settings: Sequence[Setting],
    *,
    complete: bool = True,
    budget_s: float = math.inf,
    on_progress: OnProgress = lambda done, total, name: None,
) -> Collected:
    """Runs the suite on the settings, writes `path`, and returns what it holds.

    Finished settings are kept in `path.partial`; the same call goes on from there. `budget_s`: no further setting
    begins after so many seconds; the file then holds those that are done, and is not `complete`. Raises `MindgapError`
    if nothing ran, and if a partial file of another machine is in the way.
    """
    until = time.monotonic() + budget_s
    machine = this_machine()
    with tempfile.TemporaryDirectory(prefix="mindgap-machine-") as folder:
        store = TensorStore(folder)
        runnables = suite(store)
        state = _begun(PartialFile(path, _header(machine, runnables, settings)))
        _restore(state, runnables, store)
        unfinished = False
        for number, setting in enumerate(settings):
            if setting.platform not in state.settings:
                if state.settings and time.monotonic() > until:
                    complete, unfinished = False, True
                    break
                _run_setting(setting, runnables, state, store)
            on_progress(number + 1, len(settings), setting.platform)
        algorithms = observed_algorithms(runnables, store)
    if not any(each.classes for each in state.observations):
        reasons = {str(facts.get("unavailable", "")) for facts in state.settings.values()} - {""}
        raise MindgapError(f"nothing ran on this machine: {'; '.join(sorted(reasons)) or 'every subject failed'}")
    found = _collected(machine, runnables, state, algorithms, complete)
    write(path, found)
    if not unfinished:
        state.partial.remove()
    return found


def _header(machine: Machine, runnables: Sequence[Runnable], settings: Sequence[Setting]) -> dict[str, Any]:
    described = {**dataclasses.asdict(machine), "collected": ""}
    text = json.dumps([[r.subject.name, r.subject.digest] for r in runnables] + [s.platform for s in settings])
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"format": f"{FORMAT}, partial", "version": VERSION, "machine": described, "suite": digest}


def _begun(partial: PartialFile) -> _State:
    state = _State(ClassTable(), {}, [], partial)
    for record in partial.records:
        for entry in record["new"]:
            state.table.add(NewClass.from_json(entry))
        state.settings[record["platform"]] = record["facts"]
        state.observations += [
            Observation(subject, record["platform"], status, tuple(classes), message)
            for subject, status, classes, message in record["observations"]
        ]
    return state


def _run_setting(setting: Setting, runnables: Sequence[Runnable], state: _State, store: TensorStore) -> None:
    """Runs what belongs to the setting in a new process, and writes one record."""
    before = {key: len(classes) for key, classes in state.table.classes.items()}
    observations: list[Observation] = []
    with WorkerPool([setting.platform], tensors=store, busy=1) as pool:
        description = pool.describe(setting.platform)
        if "error" in description:
            facts: dict[str, Any] = {"unavailable": _one_line(str(description["error"]))}
        else:
            facts = {name: description[name] for name in _FACTS if name in description}
            for each in runnables:
                if each.groups & setting.groups:
                    observations.append(_observed(each, setting, pool, state.table))
    new = [
        each.to_json() for key, classes in state.table.classes.items() for each in classes[before.get(key, 0) :]
    ]  # fmt: skip
    state.settings[setting.platform] = facts
    state.observations += observations
    rows = [[o.subject, o.status, o.classes, o.message] for o in observations]
    state.partial.append({"platform": setting.platform, "facts": facts, "observations": rows, "new": new})


def _observed(each: Runnable, setting: Setting, pool: WorkerPool, table: ClassTable) -> Observation:
    name = each.subject.name
    outcome = pool.run(_job(each, setting.platform))
    if not outcome.ran:
        return Observation(name, setting.platform, outcome.status, (), _one_line(outcome.message))
    arrays = _arrays(each, outcome)
    if each.traced and not _trace_agrees(each, arrays, outcome):
        return Observation(
            name, setting.platform, "trace_differs", (), "the traced run has other outputs than a plain one"
        )
    outputs = [*each.graph.outputs, *(-1 - i for i in range(len(each.graph.grad)))]
    compared = _compared(each) if "float32" in setting.groups else set[int]()
    classes: list[int] = []
    for value in each.subject.values:
        sketch = outcome.outputs[outputs.index(value.number)].sketch if value.output else None
        array = arrays[value.number]
        classes.append(table.number_of(name, value.number, array, sketch, value.number in compared))
    return Observation(name, setting.platform, outcome.status, tuple(classes))


def _job(each: Runnable, platform: str) -> Job:
    if not each.traced:
        return Job(platform, each.graph, want="outputs", deadline_s=_DEADLINE_S)
    numbers = tuple(value.number for value in each.subject.values)
    return Job(platform, each.graph, want="trace", values=numbers, deadline_s=_DEADLINE_S)


def _arrays(each: Runnable, outcome: Outcome) -> dict[int, Array]:
    """Returns the arrays of the subject's values by number."""
    if each.traced:
        assert outcome.values is not None
        made = enumerate(outcome.values, start=len(each.graph.inputs))
        return {number: array for number, array in made if array is not None}
    assert outcome.arrays is not None
    numbers = [*each.graph.outputs, *(-1 - i for i in range(len(each.graph.grad)))]
    return dict(zip(numbers, outcome.arrays, strict=True))


def _trace_agrees(each: Runnable, arrays: Mapping[int, Array], outcome: Outcome) -> bool:
    digests = dict(zip(each.graph.outputs, (d.digest for d in outcome.outputs), strict=True))
    return all(digest_array(arrays[v.number]) == digests[v.number] for v in each.subject.values if v.output)


def _compared(each: Runnable) -> set[int]:
    """Returns the values before and after activations, of models whose every value fits into memory."""
    if each.subject.experiment != "models":
        return set()
    kept = {value.number for value in each.subject.values}
    around = [v for v in each.subject.values if v.op in ACTIVATIONS]
    return {v.number for v in around} | {number for v in around for number in v.operands if number in kept}


def _restore(state: _State, runnables: Sequence[Runnable], store: TensorStore) -> None:
    """After an interruption, makes the arrays again with which elements are compared."""
    first = {o.subject: o.platform for o in reversed(state.observations) if o.classes}
    for platform in dict.fromkeys(first.values()):
        wanted = [r for r in runnables if first.get(r.subject.name) == platform and _compared(r)]
        if not wanted:
            continue
        with WorkerPool([platform], tensors=store, busy=1) as pool:
            for each in wanted:
                outcome = pool.run(_job(each, platform))
                arrays = _arrays(each, outcome) if outcome.ran else {}
                for number in _compared(each):
                    if number not in arrays or not state.table.restore(each.subject.name, number, arrays[number]):
                        raise MindgapError(
                            f"{state.partial.path}: {platform} gives other values of {each.subject.name} now than "
                            "before the interruption: remove that file and begin again"
                        )


def _collected(
    machine: Machine, runnables: Sequence[Runnable], state: _State, algorithms: Mapping[str, Any], complete: bool
) -> Collected:
    table = state.table
    return Collected(
        machine=machine,
        subjects=tuple(each.subject for each in runnables),
        settings=state.settings,
        observations=tuple(state.observations),
        prefixes={key: tuple(each.prefixes for each in classes) for key, classes in table.classes.items()},
        sketches={
            key: tuple(each.sketch or {} for each in classes)
            for key, classes in table.classes.items()
            if any(each.sketch for each in classes)
        },
        deviating=tuple(Deviating(s, v, some, whole) for (s, v), (some, whole) in table.deviating().items()),
        algorithms=algorithms,
        complete=complete,
    )


def _one_line(message: str) -> str:
    return " ".join(message.split())[:300]
