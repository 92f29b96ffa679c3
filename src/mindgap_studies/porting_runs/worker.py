"""Serves one framework: which functions are public, which calls of them run, and how a call runs on a target.

The process imports the framework and forks for each request; it never starts the framework's runtime itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from mindgap.graph import Array, MindgapError
from mindgap.platforms.environments.environment import installed
from mindgap.run.channel import Frame
from mindgap.run.server import Answer, Channel, Service
from mindgap_studies.porting_runs.call_outputs import compared, form_of, line_of, same_bits
from mindgap_studies.porting_runs.call_times import clock_of, hold_on_one_processor, seconds_in_turn, seconds_of
from mindgap_studies.porting_runs.framework_modes import (
    FrameworkModes,
    NoArrays,
    SpecialCall,
    arrays_of,
    reason_of,
    uses_of_public,
)
from mindgap_studies.porting_runs.function_calls import FORMS, MOST_CALLS, Drawn, FunctionCall, call_of, generated_call
from mindgap_studies.porting_runs.isolated_call import CallLimits, Tell, run_isolated

#: The class of a framework's modes, by the framework's name.
MODES: Final = {
    "jax": "mindgap_studies.porting_runs.jax_modes:JaxModes",
    "tensorflow": "mindgap_studies.porting_runs.tensorflow_modes:TensorFlowModes",
}
#: Functions whose vectors are unique but for their sign or phase.
_FACTORISATIONS: Final = frozenset({"svd", "eig", "eigh", "self_adjoint_eig", "qr", "schur", "hessenberg"})
_ULPS: Final = 8
#: Calls that tell whether a random function varies: of two rows that are shuffled, every second call gives the same.
_RANDOM_CALLS: Final = 16


def framework_service(channel: Channel, framework: str) -> Service:
    """Opens the service of a framework (`jax`, `tensorflow`). Raises `ImportError` where it is not installed."""
    module, _, name = MODES[framework].partition(":")
    modes: FrameworkModes = getattr(importlib.import_module(module), name)()
    serving = FrameworkServing(modes)
    answers = {
        "usage": serving.usage, "targets": serving.targets, "calls": serving.calls,
        "compare": serving.compare, "measure": serving.measure,
    }  # fmt: skip
    return Service(answers, {"source": modes.source, "versions": installed(modes.packages)})


class FrameworkServing:
    """Answers requests. Those that name a function have the limits of a forked process."""

    def __init__(self, modes: FrameworkModes) -> None:
        self._modes = modes
        self._public = modes.public()

    def usage(self, frame: Frame) -> Answer:
        """Counts calls by public function (`calls`: by any name)."""
        uses = uses_of_public(self._public, frame.header["calls"])
        return {"kind": "usage", "uses": dict(uses), "public": len(self._public)}, ()

    def targets(self, frame: Frame) -> Answer:
        """Says why each target is not available, empty where it is."""
        names = [*self._modes.targets()]

        def asked(tell: Tell) -> None:
            for name in names:
                tell({"name": name, "why": self._modes.missing(name)})

        ended = run_isolated(asked, _limits(frame))
        found = {each["name"]: each["why"] for each in ended.told}
        return {"kind": "targets", "targets": {n: found.get(n, ended.message or "not known") for n in names}}, ()

    def calls(self, frame: Frame) -> Answer:
        """Finds calls that run on the source: their numbers and labels, or the reason why none does."""
        name = self._known(frame)

        def tried(tell: Tell) -> None:
            _find_calls(self._modes, name, self._public[name], tell)

        ended = run_isolated(tried, _limits(frame))
        calls = [each for each in ended.told if "label" in each]
        refused = [each["why"] for each in ended.told if "why" in each]
        return {"kind": "calls", "calls": calls, "why": ended.message or next(iter(refused), "no call was made")}, ()

    def compare(self, frame: Frame) -> Answer:
        """Runs calls on targets, and compares them with the source. `pairs`: target and number of a call."""
        work = _PairWork(self._modes, self._known(frame), self._public, frame.header["pairs"])
        return {"kind": "compare", "results": work.done(work.compare, _limits(frame))}, ()

    def measure(self, frame: Frame) -> Answer:
        """Measures pairs of target and call: once on each side, then `rounds` times, one side after the other."""
        work = _PairWork(self._modes, self._known(frame), self._public, frame.header["pairs"])
        rounds, processor = int(frame.header["rounds"]), int(frame.header["processor"])
        results = work.done(lambda pairs, tell: work.measure(pairs, rounds, processor, tell), _limits(frame))
        return {"kind": "measure", "results": results}, ()

    def _known(self, frame: Frame) -> str:
        name = frame.header["function"]
        if name not in self._public:
            raise MindgapError(f"{name} is no public function of this version")
        return name


def _limits(frame: Frame) -> CallLimits:
    return CallLimits(frame.header["deadline_s"], frame.header["memory_bytes"])


def _candidates(
    modes: FrameworkModes, name: str, function: Callable[..., Any]
) -> Iterator[tuple[int, Callable[[], FunctionCall]]]:
    """Yields number and maker of each call that is tried: those of the table of special calls, else generated ones."""
    special = modes.special().get(name, ())

    def one(form_number: int, given: SpecialCall | None) -> FunctionCall:
        draw = Drawn(FORMS[form_number], f"{name} {form_number}", modes.make, modes.key())
        if given is not None:
            called, args = given(draw)
            made = call_of(called, args, {}, modes.is_array)
            which = f" (call {form_number + 1})" if len(special) > 1 else ""
            return replace(made, label=(made.label or "no arguments") + which)
        args, kwargs = generated_call(function, draw)
        made = call_of(function, args, kwargs, modes.is_array)
        return replace(made, label=made.label or "no arguments")

    for number in range(len(FORMS)):
        if not special:
            yield number, lambda number=number: one(number, None)
        elif number < len(special):
            yield number, lambda number=number: one(number, special[number])


def _find_calls(modes: FrameworkModes, name: str, function: Callable[..., Any], tell: Tell) -> None:
    labels: list[str] = []
    for number, make in _candidates(modes, name, function):
        if len(labels) == MOST_CALLS:
            return
        try:
            call = make()
            if call.label in labels:
                continue
            first = arrays_of(modes, modes.run_source(call))
            again = arrays_of(modes, modes.run_source(make()))
        except (Exception, SystemExit) as error:  # what a guessed call raises is data
            tell({"why": line_of(error)})
            continue
        random = not all(map(same_bits, first, again))
        tell({"call": number, "label": call.label, "random": random})
        labels.append(call.label)


#: A target, and the number of a call.
_Pair = Sequence[Any]


class _PairWork:
    """Pairs of targets and calls of one function, worked on in forked processes."""

    def __init__(
        self, modes: FrameworkModes, name: str, public: Mapping[str, Callable[..., Any]], pairs: Sequence[_Pair]
    ) -> None:
        self._modes, self._pairs, self._name = modes, pairs, name
        self._make = dict(_candidates(modes, name, public[name]))

    def done(self, work: Callable[[Sequence[_Pair], Tell], None], limits: CallLimits) -> list[Mapping[str, Any]]:
        """Works on all pairs. One at which a process ends, or passes a limit, has that as its result, and the pairs
        behind it go on in another process. One that is reached late gets the whole time limit in another process."""
        results: list[Mapping[str, Any]] = []
        left = self._pairs
        while left:
            ended = run_isolated(partial(work, left), limits)
            results += [each for each in ended.told if "side" not in each]
            if not ended.fault:
                break
            sides = [each for each in ended.told if "side" in each]
            trying: Mapping[str, Any] = sides[-1] if sides else {}
            place = int(trying.get("place", 0))
            if ended.fault == "time-out" and place > 0:
                left = left[place:]
                continue
            target, number = left[place]
            message, reason = ended.message, ended.fault
            if trying.get("side") == "source":
                message, reason = f"on the source: {message}", "not compared"
            results.append({"on": target, "call": number, "reason": reason, "message": message})
            left = left[place + 1 :]
        return results

    def compare(self, pairs: Sequence[_Pair], tell: Tell) -> None:
        modes = self._modes
        expected: dict[int, tuple[list[Array], bool]] = {}
        random = modes.is_random(self._name)
        for place, (target, number) in enumerate(pairs):
            make = self._make[number]
            if number not in expected:
                tell({"place": place, "side": "source"})
                expected[number] = self._on_source(make, _RANDOM_CALLS if random else 1)
            tell({"place": place, "side": "target"})
            try:
                outputs = arrays_of(modes, modes.targets()[target](make())())
            except NoArrays as error:
                reason, message = "type failure", f"{error}; the source's output 0 is {form_of(expected[number][0][0])}"
            except (Exception, SystemExit) as error:  # what a target does wrong is data
                reason = "crash" if isinstance(error, SystemExit) else reason_of(f"{type(error).__name__}: {error}")
                message = line_of(error)
            else:
                first, varies = expected[number]
                reason, message = compared(
                    self._unsigned(first), self._unsigned(outputs), random, varies, partial(self._moved_outputs, make),
                    lambda make=make: self._unsigned(arrays_of(modes, modes.run_exact(make()))),
                )  # fmt: skip
            tell({"on": target, "call": number, "reason": reason, "message": message})

    def _on_source(self, make: Callable[[], FunctionCall], more: int) -> tuple[list[Array], bool]:
        """The outputs on the source, and whether one of so many more calls gives others."""
        modes = self._modes
        first = arrays_of(modes, modes.run_source(make()))
        again = (arrays_of(modes, modes.run_source(make())) for _ in range(more))
        return first, not all(all(map(same_bits, first, each)) for each in again)

    def measure(self, pairs: Sequence[_Pair], rounds: int, processor: int, tell: Tell) -> None:
        """Measures each pair, held on one processor. Where two pairs have one call, its first call on the source was
        that of the first."""
        hold_on_one_processor(processor)
        modes = self._modes
        modes.wait(modes.make(np.zeros(1, np.float32), "float32") + 1)  # starts the runtime
        first_source: dict[tuple[int, bool], float] = {}
        for place, (target, number) in enumerate(pairs):
            source = partial(modes.run_source, self._make[number]().bare())
            on_device = not target.startswith("cpu/")
            clock = clock_of(on_device)
            tell({"place": place, "side": "source"})
            if (number, on_device) not in first_source:
                first_source[number, on_device] = seconds_of(source, clock)
            tell({"place": place, "side": "target"})
            started = clock()
            run = modes.targets()[target](self._make[number]())
            run()
            first_target = clock() - started
            before, after = seconds_in_turn(source, run, rounds, on_device)
            tell({
                "on": target, "call": number, "source_first": first_source[number, on_device],
                "target_first": first_target, "source": before, "target": after,
            })  # fmt: skip

    def _unsigned(self, outputs: Sequence[Array]) -> Sequence[Array]:
        """Magnitudes of factors, whose vectors may have either sign or any phase; other outputs as they are."""
        if self._name.rpartition(".")[2] not in _FACTORISATIONS:
            return outputs
        return [np.asarray(np.abs(each), each.dtype) if each.dtype.kind in "fc" else each for each in outputs]

    def _moved_outputs(self, make: Callable[[], FunctionCall]) -> Sequence[Array]:
        """The outputs on the source where each float argument moved by eight units in the last place, up or down."""
        modes, call = self._modes, make()
        rng = np.random.default_rng(0)
        moved: list[Any] = []
        for array in call.arrays:
            (values,) = modes.leaves(array)
            if not np.issubdtype(values.dtype, np.inexact):
                moved.append(array)
                continue
            step = _ULPS * float(np.finfo(values.dtype).eps)
            signs = rng.choice([-1.0, 1.0], values.shape)
            moved.append(modes.make(np.asarray(values * (1 + step * signs), values.dtype), str(values.dtype)))
        return self._unsigned(arrays_of(modes, modes.run_source(replace(call, arrays=tuple(moved)))))
