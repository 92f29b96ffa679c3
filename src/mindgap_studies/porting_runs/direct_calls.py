"""Measures functions of PyTorch by direct calls, in a process of the target's environment.

The source is the public function, called in Python on tensors. The target is what the platform's users write: its
`run.py` exports or compiles the function, and what comes of that is called. Eager mode of a device is the public
function on operands there. mindgap's executor has no part in it.

Messages:

parent → worker   measure   the source of a sample, and the target's runner (`platforms.script_runner`)
worker → parent   measured  seconds of first and later calls on both sides
                  failed    as of `source_worker.worker`
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import MindgapError
from mindgap.own_path.worker import opened_program, prepared_answer, requested_runner
from mindgap.platforms.pytorch.device.devices import DEVICES, TorchDevice
from mindgap.platforms.script_runner import ScriptRunner
from mindgap.run.server import Answer, Channel, Service
from mindgap.source_worker.worker import answering
from mindgap_studies.porting_runs.call_times import clock_of, hold_on_one_processor, seconds_in_turn, seconds_of

if TYPE_CHECKING:
    import torch

    from mindgap.sources import Built

#: Goes to the target before anything is measured: exporters import what they need with their first program.
_WARM_UP: Final = "ops:sinh#0"


def direct_calls_service(_: Channel, processor: int) -> Service:
    """Opens the service. `processor`: the number of the one on which the process is held."""
    hold_on_one_processor(processor)
    # PyTorch is imported late: it counts the processors then, and threads beyond them would wait for each other.
    import torch

    from mindgap.aten.torch_private.operator_tests import call_without_seeds

    torch.set_num_threads(1)
    importlib.import_module("mindgap.sources")
    call_without_seeds()
    warnings.simplefilter("ignore")
    return Service({"measure": answering(prepared_answer(_Measuring().measure))})


class _Measuring:
    """Answers requests. `_cold`: whether the target's exporter has yet to run."""

    def __init__(self) -> None:
        self._cold = True

    def measure(self, header: Mapping[str, Any]) -> Answer:
        way = requested_runner(header), header["on_device"], header["eager_on"]
        if self._cold:
            self._cold = False
            with contextlib.suppress(Exception):  # a target that does not run it has imported what it needs
                measured(_WARM_UP, 1, *way)
        return {"kind": "measured", **measured(header["source"], header["rounds"], *way)}, ()


def measured(
    source: str, rounds: int, runner: ScriptRunner, on_device: bool = False, eager_on: str = ""
) -> dict[str, Any]:
    """Returns `source_first` and `target_first`, the seconds of the first call on each side, and `source` and `target`,
    those of later calls in turn.

    `runner`: one whose call is apart (`call_apart`). The target's first call holds the export and what it compiles.
    `on_device`: measured by the clock. `eager_on`: the device whose eager mode is the target, which takes no runner.
    Raises what the target raises.
    """
    import torch

    # Of one code, torch.compile compiles a few functions, and runs the others in eager mode.
    torch.compiler.reset()
    built = opened_program(source)
    call = bare_call(built)
    clock = clock_of(on_device)
    with torch.no_grad():
        target = EagerTarget(call, DEVICES[eager_on]) if eager_on else _ExportedTarget(built, call, runner)
        firsts = seconds_of(call, clock), seconds_of(target.first, clock)
        before, after = seconds_in_turn(call, target.later(), rounds, on_device)
    return {"source_first": firsts[0], "target_first": firsts[1], "source": before, "target": after}


class _ExportedTarget:
    """What a runner makes of a program."""

    def __init__(self, built: Built, call: partial[Any], runner: ScriptRunner) -> None:
        from mindgap.own_path.program_run import FlatProgram, function_of

        self._prepare: Callable[..., Any] = function_of(runner)
        if "torch.compile(" in runner.run:
            # It takes any function. Around a program of tensors alone, its code would check what that holds at each
            # call.
            self._model, self._tensors = _Direct(call), _Tensors(lambda: call.args)
        else:
            self._model = FlatProgram(built.program, built.args, built.kwargs)
            self._tensors = _Tensors(self._model.fresh)
        self._later: list[Callable[[], Any]] = []

    def first(self) -> None:
        self._later.append(self._prepare(self._model, self._tensors))
        self._later[0]()

    def later(self) -> Callable[[], Any]:
        """Returns the call of the runtime, after the first."""
        self._tensors.stay()
        return self._later[0]


class EagerTarget:
    """The public function on operands that were copied to a device. A call waits for the device, and copies nothing
    back."""

    def __init__(self, call: partial[Any], device: TorchDevice) -> None:
        import torch

        from mindgap.aten.torch_private import modules
        from mindgap.platforms.pytorch.device.runtime import attach

        attach(device)
        self._device, self._place = device, torch.device(device.torch_name)

        def copied(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(self._place)

        function = copy.deepcopy(call.func).to(self._place) if isinstance(call.func, torch.nn.Module) else call.func
        args, kwargs = modules.tree_map_only(torch.Tensor, copied, (call.args, call.keywords))
        self._moved = partial(function, *args, **(kwargs | ({"device": self._place} if "device" in kwargs else {})))
        self._outputs: Any = None

    def first(self) -> None:
        """Calls, and keeps the outputs."""
        self._outputs = self.later()()

    def later(self) -> Callable[[], Any]:
        """Returns the call. Raises `MindgapError` where the outputs of the first one are on another device."""
        import torch

        from mindgap.aten.torch_private import modules
        from mindgap.platforms.pytorch.device.runtime import synchronise

        for output in modules.tree_leaves(self._outputs):
            if isinstance(output, torch.Tensor) and output.device.type != self._place.type:
                raise MindgapError(f"eager mode gives a tensor on {output.device.type}, not on {self._place.type}")
        moved, device = self._moved, self._device

        def run() -> Any:
            found = moved()
            synchronise(device)
            return found

        return run


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
    from mindgap_zoo.operator_samples.sample_call import SampleCall

    if isinstance(built.program, SampleCall):
        args, kwargs = built.program.filled(built.args)
        return partial(built.program.function, *args, **kwargs)
    return partial(built.program, *built.args, **built.kwargs)
