"""Runs programs by the way of a platform's users in a worker process: a service of `mindgap.run.server`.

Messages:

parent → worker   run       a program's source, a runner (`platforms.script_runner`); `first`: the source of the first
                            of several sets of arguments
                  sizes     the same, and dynamic dimensions: runs one export at several sizes
                  eager     a program's source: builds it again, and runs it eagerly
                  sensitivity  a program's source: runs it eagerly with arguments and parameters a little moved
                  locate    the same, and how far the outputs are apart: finds the first submodule that shows it
                  nodes     a program whose source is a file, and a runner of files: finds the nodes that it computes
                            otherwise
                  feed      a program whose source is a file, a runner of files, and tensors: runs the file on them
worker → parent   ran       the outputs by the runner, then those of eager mode, or why there are none by the runner;
                            what the program asks; its modules in training mode
                  sized     how far each size is off, or why it failed; sizes that the program itself refuses
                  located   the submodule
                  noded     these nodes (`FileNodes`)
                  fed       the outputs, or why there are none
                  failed    as of `source_worker.worker`
"""

from __future__ import annotations

import dataclasses
import importlib
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph.compare.metrics import distance
from mindgap.platforms.script_runner import ScriptRunner
from mindgap.run.channel import Array, Frame
from mindgap.run.server import Answer, Channel, Service
from mindgap.source_worker.worker import answering

if TYPE_CHECKING:
    from mindgap.own_path.dynamic import DynamicDimensions
    from mindgap.own_path.facts import Question
    from mindgap.own_path.program_run import FlatProgram
    from mindgap.own_path.runs import Located
    from mindgap.sources import Built

_log = logging.getLogger(__name__)

Header = dict[str, Any]
Answers = Callable[[Mapping[str, Any]], Answer]

_NO_TENSOR: Final = "the program returns no tensor"
#: Exports that hold what a program's attributes are in Python, and whose runtimes keep no buffers between two calls.
_FIXED: Final = frozenset({"torch.onnx.export", "torch.export.export", "torch.jit.trace"})
_AT_IMPORT: Final = ("TORCHINDUCTOR_", "TORCHDYNAMO_", "TORCH_COMPILE")
_LATER: Final = frozenset({"TORCHINDUCTOR_CACHE_DIR"})


def own_path_service(channel: Channel) -> Service:
    """Runs programs by runners."""
    importlib.import_module("mindgap.sources")
    warnings.simplefilter("ignore")
    programs = Programs(on_stage=lambda stage: channel.send({"stage": stage}))
    answers = {"run": programs.run, "sizes": programs.sizes, "locate": programs.locate, "eager": programs.eager}
    answers |= {"sensitivity": programs.sensitivity, "check_sizes": programs.check_sizes, "changes": programs.changes}

    def feed(frame: Frame) -> Answer:
        return answering(prepared_answer(lambda header: programs.feed(header, frame.arrays)))(frame)

    def nodes(frame: Frame) -> Answer:
        return answering(prepared_answer(lambda header: programs.nodes(header, frame.arrays)))(frame)

    fed: dict[str, Callable[[Frame], Answer]] = {"feed": feed, "nodes": nodes}
    return Service({**{kind: answering(prepared_answer(answer)) for kind, answer in answers.items()}, **fed})


def prepared_answer(answer: Answers) -> Answers:
    """Returns the answer to a request, given after what its runner wants to be called in this process.

    The answer names variables of PyTorch's compiler that the program set, and that were read before (`variables`).
    """

    def prepared(header: Mapping[str, Any]) -> Answer:
        if header["prepare"]:
            name, options = header["prepare"]
            module, _, function = name.partition(":")
            getattr(importlib.import_module(module), function)(options)
        before = _compiler_variables() if "torch._dynamo" in sys.modules else None
        given, arrays = answer(header)
        late = {} if before is None else dict(_compiler_variables().items() - before.items())
        return ({**given, "variables": late} if late else given), arrays

    return prepared


def _compiler_variables() -> dict[str, str]:
    """The environment variables that PyTorch's compiler reads when it is imported."""
    return {name: value for name, value in os.environ.items() if name.startswith(_AT_IMPORT) and name not in _LATER}


class Programs:
    """Keeps the program that was built last, and what is known of it."""

    def __init__(self, built: Built | None = None, on_stage: Callable[[str], object] = str) -> None:
        """`built`: the program of the source "", for a process that has it already. `on_stage`: is given what runs."""
        self._on_stage = on_stage
        self._source: str | None = None
        self._built: Built | None = built
        self._given = built
        self._facts: Header = {}
        #: The whole program, with what its custom operators declare wrongly; None until that is wanted.
        self._declared: Located | None = None
        self._eager: list[Array] = []
        self._second: list[Array] = []
        self._written: list[str] = []
        self._filled: list[int] = []
        self._numbers: list[int] = []
        #: The arguments with which the programs of a group are exported, by their source, and these exports.
        self._first: tuple[str, tuple[Any, ...], Mapping[str, Any]] | None = None
        self._exports: dict[str, dict[str, Any]] = {}
        #: What tracing warned of in these exports, by runner.
        self._warned: dict[str, list[tuple[str, str]]] = {}

    def run(self, header: Mapping[str, Any]) -> tuple[Header, Sequence[Array]]:
        """Runs a program by a runner, and eagerly. The export has the arguments of `first` where those are alike."""
        from mindgap.own_path.failures import Failure
        from mindgap.own_path.program_run import run_by

        program, exports, runner = self._flat(header), dict[str, Any](), requested_runner(header)
        # A file without a translation has outputs, and stands for a program without.
        if not header.get("file") and not self._eager:
            failure = dataclasses.asdict(Failure(_NO_TENSOR, ours=True))
            return {"kind": "ran", **self._facts, "failure": failure, "first": False}, []
        first = self._first_of_group(header, program)
        answer: Header = {"kind": "ran", **self._facts, "failure": None, "first": first is not None}
        started = time.monotonic()
        if first is not None or header["first"] == header["source"]:
            exports = self._exports.setdefault(runner.run, {})
        outcome = run_by(
            program if first is None else first, runner, None if first is None else program.tensors, exports
        )
        if isinstance(outcome, Failure) and outcome.ours and first is not None:
            # It exports and runs in one call.
            first, answer["first"] = None, False
            outcome = run_by(program, runner)
        if isinstance(outcome, Failure):
            # That an exporter takes no such argument has nothing to do with what the program asks.
            asked: Any = [] if program.objects else answer["asked"]
            return {**answer, "asked": asked, "failure": dataclasses.asdict(outcome)}, []
        warned = (first or program).warned
        if header["first"]:
            # A run of what was exported before warns of nothing.
            self._warned.setdefault(runner.run, []).extend(warned)
            warned = self._warned[runner.run]
        answer["warned"] = [list(each) for each in dict.fromkeys(warned)]
        written = (first or program).written
        answer["unwritten"] = [name for name in self._written if name not in written]
        answer["by_order"] = [list(each) for each in program.by_order]
        groups = {"outputs": outcome, "eager": self._eager}
        # Code of `torch.compile` looks at attributes again, and shares buffers.
        if first is None and distance(self._second, self._eager) > 0 and exports.keys() & _FIXED:
            again = run_by(program, runner, program.tensors, exports)
            if not isinstance(again, Failure):
                groups |= {"second_outputs": again, "second_eager": self._second}
        if first is None and time.monotonic() - started < header["again_s"]:
            groups |= self._with_others(program, exports, header)
        counts = {name: len(arrays) for name, arrays in groups.items()}
        return {**answer, "groups": counts}, [array for arrays in groups.values() for array in arrays]

    def feed(self, header: Mapping[str, Any], arrays: Sequence[Array]) -> tuple[Header, Sequence[Array]]:
        """Runs a ready-made file of a program on other tensors than those among its arguments, in their order."""
        from mindgap.aten.tensors import to_torch
        from mindgap.own_path.failures import Failure
        from mindgap.own_path.program_run import run_by

        # The file is there already: a run with exports feeds the given tensors at once.
        outcome = run_by(
            self._flat(header), requested_runner(header), [to_torch(array) for array in arrays], {"file": None}
        )
        if isinstance(outcome, Failure):
            return {"kind": "fed", "failure": outcome.message}, ()
        return {"kind": "fed", "failure": None}, outcome

    def nodes(self, header: Mapping[str, Any], arrays: Sequence[Array]) -> tuple[Header, Sequence[Array]]:
        """Finds the nodes of a model file that a runner computes otherwise. `arrays`: in place of its arguments."""
        from mindgap.aten.tensors import to_numpy
        from mindgap.own_path.file_nodes import wrong_nodes

        flat = self._flat(header)
        given = arrays or [to_numpy(tensor) for tensor in flat.tensors]
        inputs = {**getattr(flat.program, "fixed_inputs", {}), **dict(zip(flat.names, given, strict=True))}
        folder = Path(header["folder"]) if header["folder"] else None
        path, runner = Path(header["path"]), requested_runner(header)
        wrong = wrong_nodes(path, inputs, runner, header["seconds"], header["apart"], folder)
        return {"kind": "noded", **dataclasses.asdict(wrong)}, ()

    def changes(self, header: Mapping[str, Any]) -> tuple[Header, Sequence[Array]]:
        """Compares a ready-made ONNX file with the program."""
        from mindgap.own_path.old_file import file_changes
        from mindgap.own_path.runs import FileChanges
        from mindgap.own_path.state import as_it_was
        from mindgap.run.message_cleaning import one_line

        flat = self._flat(header)
        try:
            with as_it_was(flat.program):
                outcome = file_changes(Path(header["path"]), flat)
        except Exception as error:  # reaches the row as a weakness
            outcome = FileChanges(reason=one_line(error))
        return {"kind": "changes", **dataclasses.asdict(outcome)}, ()

    def _first_of_group(self, header: Mapping[str, Any], program: FlatProgram) -> FlatProgram | None:
        """The program with the first arguments of its group. None if these are the program's, or not of the same
        form."""
        if not header["first"]:
            return None
        if self._first is None or self._first[0] != header["first"]:
            own = header["first"] == header["source"]
            built = self._program(header["source"]) if own else opened_program(header["first"])
            self._first, self._exports = (header["first"], built.args, built.kwargs), {}
            self._warned = {}
        if header["first"] == header["source"]:
            return None
        first = self._made(header, self._first[1], self._first[2])
        return first if first.alike(program) else None

    def _with_others(
        self, program: FlatProgram, exports: dict[str, Any], header: Mapping[str, Any]
    ) -> dict[str, list[Array]]:
        """Feeds other arguments to what was exported; returns them and the outputs of both sides. Empty where there are
        none, or either side refuses them."""
        from mindgap.aten.tensors import to_numpy
        from mindgap.own_path.failures import Failure
        from mindgap.own_path.program_run import run_by, run_eagerly
        from mindgap.run.message_cleaning import one_line

        others = program.other_tensors()
        if others is None:
            return {}
        try:
            eager = run_eagerly(self._flat(header), others)
        except Exception as error:  # of any type: the program refuses other values
            _log.info("other arguments are not tried: in eager mode the program raised %s", one_line(error))
            return {}
        outcome = run_by(program, requested_runner(header), others, exports)
        if isinstance(outcome, Failure):
            return {}
        given = [to_numpy(tensor) for tensor in others]
        return {"other_arguments": given, "other_outputs": outcome, "other_eager": eager}

    def sizes(self, header: Mapping[str, Any]) -> tuple[Header, Sequence[Array]]:
        """Exports a program with dynamic dimensions, and runs it at several sizes."""
        from mindgap.own_path.dynamic import run_sizes
        from mindgap.own_path.failures import Failure
        from mindgap.own_path.sizes import size_words

        flat = self._flat(header)
        dimensions = self._dimensions(flat, header)
        runner, eager = requested_runner(header), self._flat(header)
        outcome = run_sizes(flat, eager, runner, dimensions, header["file"], self._on_stage)
        if isinstance(outcome, Failure):
            at = [size_words(each) for each in dimensions.chosen(flat)[:1]]
            return {"kind": "sized", "failure": dataclasses.asdict(outcome), "at": at}, ()
        runs = [dataclasses.astuple(run) for run in outcome[0]]
        return {"kind": "sized", "failure": None, "runs": runs, "left_out": outcome[1]}, ()

    def check_sizes(self, header: Mapping[str, Any]) -> tuple[Header, Sequence[Array]]:
        """Builds a program. Raises `MindgapError` where no argument has a dynamic dimension that the user names."""
        self._dimensions(self._flat(header), header)
        return {"kind": "checked"}, ()

    def eager(self, header: Mapping[str, Any]) -> tuple[Header, Sequence[Array]]:
        """Builds a program again, and runs it eagerly."""
        from mindgap.own_path.program_run import FlatProgram, run_eagerly

        built = opened_program(header["source"])
        return {"kind": "eager"}, run_eagerly(FlatProgram(built.program, built.args, built.kwargs))

    def sensitivity(self, header: Mapping[str, Any]) -> tuple[Header, Sequence[Array]]:
        """Measures how far the outputs of a program are from themselves in eager mode."""
        from mindgap.own_path.program_run import sensitivity

        return {"kind": "sensitivity", **dataclasses.asdict(sensitivity(self._flat(header)))}, ()

    def _dimensions(self, flat: FlatProgram, header: Mapping[str, Any]) -> DynamicDimensions:
        """The dynamic dimensions that the user asks for, or else those that the source declares."""
        from mindgap.own_path.dynamic import asked_dimensions, declared_dimensions
        from mindgap.own_path.sizes import DynamicSize

        if header["sizes"]:
            return asked_dimensions(flat, [DynamicSize(*each) for each in header["sizes"]])
        return declared_dimensions(flat, self._program(header["source"]).dynamic_shapes)

    def _flat(self, header: Mapping[str, Any]) -> FlatProgram:
        built = self._program(header["source"])
        return self._made(header, built.args, built.kwargs)

    def _made(self, header: Mapping[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> FlatProgram:
        from mindgap.own_path.program_run import FlatProgram

        pairs = [(argument, given) for argument, given in header.get("input_map", ())]
        return FlatProgram(self._program(header["source"]).program, args, kwargs, pairs, self._filled, self._numbers)

    def locate(self, header: Mapping[str, Any]) -> tuple[Header, Sequence[Array]]:
        """Finds the first submodule that shows a difference or a failure by itself."""
        from mindgap.own_path.runs import Located
        from mindgap.own_path.search import first_part
        from mindgap.own_path.sizes import sizes_of
        from mindgap.own_path.state import as_it_was

        flat, runner = self._flat(header), requested_runner(header)
        if header["apart"] is None and flat.objects:
            # What an exporter refuses is an argument, and submodules are given others.
            return {"kind": "located", **dataclasses.asdict(Located("", type(flat.program).__name__))}, ()
        declared = self._declared = self._declared or _declared(flat)
        if declared.declared:
            return {"kind": "located", **dataclasses.asdict(declared)}, ()
        given, later = flat, None
        if header["first"]:
            first = self._first_of_group(header, flat)
            given, later = (flat, None) if first is None else (first, flat.tensors)
        elif header["others"]:
            later = flat.other_tensors()
        elif header["at"]:
            later = self._dimensions(flat, header).resized(flat, sizes_of(header["at"]))
        with as_it_was(flat.program):  # an export may change what the program holds, and fail
            part = first_part(
                flat.program, *given.arguments(given.tensors), runner, header["seconds"], header["apart"],
                None if later is None else flat.arguments(later),
            )  # fmt: skip
        part = dataclasses.replace(part, unchecked=declared.unchecked)
        return {"kind": "located", **dataclasses.asdict(part)}, ()

    def _program(self, source: str) -> Built:
        """Builds a program, runs it eagerly, and notes what it asks."""
        from mindgap.own_path.facts import questions, training_modules
        from mindgap.own_path.program_run import FlatProgram, run_twice

        if self._source != source or self._built is None:
            self._declared = None
            self._source, self._built = None, _plain(self._given) if self._given is not None else opened_program(source)
            built = self._built
            if "torch._dynamo" in sys.modules:
                from mindgap.aten.torch_private.inductor import reset

                # Of one function eight versions are kept: another model of the class would run eagerly without a word.
                reset()
            flat = FlatProgram(built.program, built.args, built.kwargs)
            asked: list[Question] = []
            # The second call's: what modules ask while they are imported is no question of the program.
            calls = run_twice(flat, lambda call: asked.extend(questions(flat, call)))
            self._eager, self._second, self._written = calls.first, calls.second, calls.written
            self._filled, self._numbers = calls.filled, calls.numbers
            self._facts = {
                "changes": [list(each) for each in calls.changes],
                "asked": [[each.function, each.place] for each in asked],
                "training": list(training_modules(built.program)),
                "draws": calls.draws,
                # PyTorch's samples of random functions set the seed around each call: the function itself does not.
                "repeats": not (calls.draws or source.startswith("ops:"))
                and distance(calls.second, calls.first) == 0.0,
                "grown": calls.grown,
                "dynamic": built.dynamic_shapes is not None,
            }
            self._source = source
        return self._built


def opened_program(source: str) -> Built:
    """Opens a source, and builds its first program."""
    from mindgap.graph_capture.errors import UnprovenCapture
    from mindgap.sources import Program, open_source
    from mindgap.sources.translated_model import checked_before

    one = open_source(source)[0]
    assert isinstance(one, Program), "a graph that was captured before has no program"
    with checked_before(), warnings.catch_warnings():  # by the process that captured it, which has warned
        warnings.simplefilter("ignore", UnprovenCapture)
        return _plain(one.make())


def _plain(built: Built) -> Built:
    """Gives plain weights to a program whose weights are subclasses of tensors. Packed modules stay as a user has
    them: what an exporter does with them is the program's own path."""
    import torch

    from mindgap.graph_capture.wrapped_weights import with_plain_weights, wrapped_weights

    if not isinstance(program := built.program, torch.nn.Module) or not wrapped_weights(program):
        return built
    return dataclasses.replace(built, program=with_plain_weights(program))


def _declared(flat: FlatProgram) -> Located:
    """The whole program, with what its custom operators declare wrongly."""
    from mindgap.graph_capture.operator_declarations import declaration_faults
    from mindgap.own_path.runs import Located
    from mindgap.own_path.state import as_it_was
    from mindgap.run.message_cleaning import one_line

    whole = Located("", type(flat.program).__name__)
    try:
        with as_it_was(flat.program):
            faults = declaration_faults(flat.program, *flat.arguments(flat.tensors))
    except Exception as error:  # reaches the row as a weakness
        return dataclasses.replace(whole, unchecked=one_line(error))
    line = faults[0].line if faults else ""
    return dataclasses.replace(whole, line=line, declared="; ".join(each.words for each in faults))


def requested_runner(header: Mapping[str, Any]) -> ScriptRunner:
    """Returns the runner of a request (`client.runner_json`)."""
    given = header["runner"]
    imports, properties = tuple(given["imports"]), given["properties"]
    return ScriptRunner(given["run"], imports, properties=properties, refusal=given.get("refusal", ""))
