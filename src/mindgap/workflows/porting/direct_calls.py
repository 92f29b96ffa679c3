"""Measures functions of PyTorch by direct calls, in a process of the target's environment.

The source is the public function, called in Python on tensors. The target is what the platform's users write: its
`run.py` exports or compiles the function, and what comes of that is called. mindgap's executor has no part in it.

Messages:

parent → worker   measure   the source of a sample, and the target's runner (`platforms.script_runner`)
worker → parent   measured  seconds of first and later calls on both sides
                  failed    as of `models.sources.worker`
"""

from __future__ import annotations

import contextlib
import importlib
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mindgap.models.sources.worker import answering
from mindgap.platforms.script_runner import ScriptRunner
from mindgap.run.server import Answer, Channel, Service
from mindgap.workflows.porting.call_times import clock_of, hold_on_one_processor, seconds_in_turn, seconds_of

if TYPE_CHECKING:
    import torch

    from mindgap.models.corpus import Built

#: Goes to the target before anything is measured: exporters import what they need with their first program.
_WARM_UP: Final = "ops:sinh#0"


def direct_calls_service(_: Channel, processor: int) -> Service:
    """Opens the service. `processor`: the number of the one on which the process is held."""
    hold_on_one_processor(processor)
    importlib.import_module("mindgap.models.corpus")
    warnings.simplefilter("ignore")
    return Service({"measure": answering(_Measuring().measure)})


class _Measuring:
    """Answers requests. `_cold`: whether the target's exporter has yet to run."""

    def __init__(self) -> None:
        self._cold = True

    def measure(self, header: Mapping[str, Any]) -> Answer:
        given, options = header["runner"], header["prepare"]
        runner = ScriptRunner(given["run"], tuple(given["imports"]), properties=given["properties"])
        if options:
            name, values = options
            module, _, function = name.partition(":")
            getattr(importlib.import_module(module), function)(values)
        if self._cold:
            self._cold = False
            with contextlib.suppress(Exception):  # a target that does not run it has imported what it needs
                measured(_WARM_UP, runner, 1, header["on_device"])
        return {"kind": "measured", **measured(header["source"], runner, header["rounds"], header["on_device"])}, ()


def measured(source: str, runner: ScriptRunner, rounds: int, on_device: bool) -> dict[str, Any]:
    """Returns `source_first` and `target_first`, the seconds of the first call on each side, and `source` and `target`,
    those of later calls in turn.

    `runner`: one whose call is apart (`call_apart`). The target's first call holds the export and what it compiles.
    Raises what the target raises.
    """
    import torch

    from mindgap.models.own_path.program_run import FlatProgram, function_of
    from mindgap.models.own_path.worker import opened_program

    built = opened_program(source)
    prepare: Callable[..., Any] = function_of(runner)
    call = bare_call(built)
    if "torch.compile(" in runner.run:
        # It takes any function. Around a program of tensors alone, its code would check what that holds at each call.
        model, tensors = _Direct(call), _Tensors(lambda: call.args)
    else:
        model = FlatProgram(built.program, built.args, built.kwargs)
        tensors = _Tensors(model.fresh)
    clock = clock_of(on_device)
    later: list[Callable[[], Any]] = []

    def first() -> None:
        later.append(prepare(model, tensors))
        later[0]()

    with torch.no_grad():
        firsts = seconds_of(call, clock), seconds_of(first, clock)
        tensors.stay()
        before, after = seconds_in_turn(call, later[0], rounds, on_device)
    return {"source_first": firsts[0], "target_first": firsts[1], "source": before, "target": after}


class _Direct:
    """A public function of positional arguments, which `run` compiles in the place of `program`."""

    def __init__(self, call: partial[Any]) -> None:
        function, keywords = call.func, call.keywords

        def program(*given: Any) -> Any:
            return function(*given, **keywords)

        self.program = program

    def __call__(self, *given: Any) -> Any:
        return self.program(*given)


class _Tensors:
    """Gives a runner its operands: new ones at each call while it exports, and the same ones afterwards."""

    def __init__(self, fresh: Callable[[], tuple[torch.Tensor, ...]]) -> None:
        self._fresh = fresh

    def __call__(self) -> tuple[torch.Tensor, ...]:
        return self._fresh()

    def stay(self) -> None:
        kept = self._fresh()
        self._fresh = lambda: kept


def bare_call(built: Built) -> partial[Any]:
    """Returns the call of the public function itself, or of the user's module, on the program's arguments."""
    from mindgap.models.corpus.operator_samples.sample_call import SampleCall

    if isinstance(built.program, SampleCall):
        args, kwargs = built.program.filled(built.args)
        return partial(built.program.function, *args, **kwargs)
    return partial(built.program, *built.args, **built.kwargs)
