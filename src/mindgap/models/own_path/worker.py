"""Runs programs by the way of a platform's users in a worker process: a service of `mindgap.run.server`.

Messages:

parent → worker   run       a program's source, a runner (`platforms.script_runner`)
                  sizes     the same, and dynamic dimensions: runs one export at several sizes
                  locate    the same, and how far the outputs are apart: finds the first submodule that shows it
worker → parent   ran       the outputs by the runner, then those of eager mode, or why there are none by the runner;
                            what the program asks; its modules in training mode
                  sized     how far each size is off, or why it failed; sizes that the program itself refuses
                  located   the submodule
                  failed    as of `models.sources.worker`
"""

from __future__ import annotations

import dataclasses
import importlib
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mindgap.models.sources.worker import answering
from mindgap.platforms.script_runner import ScriptRunner
from mindgap.run.channel import Array
from mindgap.run.server import Channel, Service

if TYPE_CHECKING:
    from mindgap.models.corpus import Built
    from mindgap.models.own_path.program_run import FlatProgram

Header = dict[str, Any]


def own_path_service(_: Channel) -> Service:
    """Runs programs by runners."""
    importlib.import_module("mindgap.models.corpus")
    warnings.simplefilter("ignore")
    programs = Programs()
    answers = {"run": programs.run, "sizes": programs.sizes, "locate": programs.locate}
    return Service({kind: answering(answer) for kind, answer in answers.items()})


class Programs:
    """Keeps the program that was built last, and what is known of it."""

    def __init__(self, built: Built | None = None) -> None:
        """`built`: the program of the source "", for a process that has it already."""
        self._source: str | None = None
        self._built: Built | None = built
        self._given = built
        self._facts: Header = {}
        self._eager: list[Array] = []

    def run(self, header: Mapping[str, Any]) -> tuple[Header, Sequence[Array]]:
        """Runs a program by a runner, and eagerly."""
        from mindgap.models.own_path.program_run import Failure, run_by

        program, exports = self._flat(header["source"]), dict[str, Any]()
        answer: Header = {"kind": "ran", **self._facts, "failure": None}
        started = time.monotonic()
        found = run_by(program, _runner(header), None, exports)
        if isinstance(found, Failure):
            return {**answer, "failure": dataclasses.asdict(found)}, []
        answer["warned"] = [list(each) for each in dict.fromkeys(program.warned)]
        groups = {"outputs": found, "eager": self._eager}
        if time.monotonic() - started < header["again_s"]:
            groups |= self._with_others(program, exports, header)
        counts = {name: len(arrays) for name, arrays in groups.items()}
        return {**answer, "groups": counts}, [array for arrays in groups.values() for array in arrays]

    def _with_others(
        self, program: FlatProgram, exports: dict[str, Any], header: Mapping[str, Any]
    ) -> dict[str, list[Array]]:
        """Feeds other arguments to what was exported; returns them and the outputs of both sides. Empty where there are
        none, or either side refuses them."""
        from mindgap.aten.tensors import to_numpy
        from mindgap.models.own_path.program_run import Failure, run_by, run_eagerly

        others = program.other_tensors()
        if others is None:
            return {}
        try:
            eager = run_eagerly(self._flat(header["source"]), others)
        except Exception:  # the program refuses other values
            return {}
        found = run_by(program, _runner(header), others, exports)
        if isinstance(found, Failure):
            return {}
        given = [to_numpy(tensor) for tensor in others]
        return {"other_arguments": given, "other_outputs": found, "other_eager": eager}

    def sizes(self, header: Mapping[str, Any]) -> tuple[Header, Sequence[Array]]:
        """Exports a program with dynamic dimensions, and runs it at several sizes."""
        from mindgap.models.own_path.dynamic import run_sizes
        from mindgap.models.own_path.program_run import Failure
        from mindgap.models.own_path.sizes import DynamicSize

        sizes = [DynamicSize(*each) for each in header["sizes"]]
        flat = self._flat(header["source"])
        found = run_sizes(flat, self._flat(header["source"]), _runner(header), sizes)
        if isinstance(found, Failure):
            return {"kind": "sized", "failure": dataclasses.asdict(found)}, ()
        runs = [[run.words, run.apart, run.message, run.line] for run in found[0]]
        return {"kind": "sized", "failure": None, "runs": runs, "left_out": found[1]}, ()

    def _flat(self, source: str) -> FlatProgram:
        from mindgap.models.own_path.program_run import FlatProgram

        built = self._program(source)
        return FlatProgram(built.program, built.args, built.kwargs)

    def locate(self, header: Mapping[str, Any]) -> tuple[Header, Sequence[Array]]:
        """Finds the first submodule that shows a difference or a failure by itself."""
        from mindgap.models.own_path.search import first_part

        built = self._program(header["source"])
        part = first_part(built.program, built.args, built.kwargs, _runner(header), header["seconds"], header["apart"])
        return {"kind": "located", **dataclasses.asdict(part)}, ()

    def _program(self, source: str) -> Built:
        """Builds a program, runs it eagerly, and notes what it asks."""
        from mindgap.models.own_path.facts import questions, training_modules
        from mindgap.models.own_path.program_run import FlatProgram, run_eagerly

        if self._source != source or self._built is None:
            self._source, self._built = source, self._given if self._given is not None else _opened(source)
            built = self._built
            flat = FlatProgram(built.program, built.args, built.kwargs)
            # First, so that what modules ask while they are imported is no question of the program.
            self._eager = run_eagerly(flat)
            asked = questions(flat)
            self._facts = {
                "asked": [[each.function, each.place] for each in asked],
                "training": list(training_modules(built.program)),
            }
        return self._built


def _opened(source: str) -> Built:
    from mindgap.models.corpus import Program, open_source

    one = open_source(source)[0]
    assert isinstance(one, Program), "a graph that was captured before has no program"
    return one.make()


def _runner(header: Mapping[str, Any]) -> ScriptRunner:
    given = header["runner"]
    return ScriptRunner(given["run"], tuple(given["imports"]), properties=given["properties"])
