"""Translates graphs one by one and builds them together. A graph that cannot be built costs only itself."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
import torch.fx

from mindgap.graph import Graph
from mindgap.platforms.protocol import Array, CompileFailure, Executable, Fallback, Options, Unsupported
from mindgap.platforms.pytorch.ahead_of_time.cpp_library import Function, accused, build, opened
from mindgap.platforms.pytorch.ahead_of_time.cpp_source import CppSource, NeedsOwnLibrary, compile_alone, source_of
from mindgap.platforms.pytorch.compilation.compiled import error_summary
from mindgap.platforms.pytorch.compilation.fx_module import to_fx
from mindgap.platforms.pytorch.compilation.inductor_settings import configured
from mindgap.platforms.pytorch.refusals import causes, refusal, refused_operator

_COMPLAINT: Final = re.compile(r"\berror: .*")


class AotExecutable:
    """An executable compiled ahead of time.

    `facts`: how many `kernels` Inductor wrote for it, how many `library_calls` it prefers to generated code (matrix
    products, convolutions), and the `fallbacks`: operators that it has no code for and runs in ATen, with how often.
    `alone`: built by AOTInductor itself, which reports none of that.
    """

    def __init__(self, executable: Executable, facts: Mapping[str, Any]) -> None:
        self._executable = executable
        self.facts = facts

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the graph. Raises `Unsupported` if ATen refuses a fallback operator."""
        try:
            return self._executable(inputs)
        except (Unsupported, Fallback, MemoryError):
            raise
        except Exception as error:
            why = refusal(error)
            if why is None:
                raise
            raise Unsupported(refused_operator(error) or "the graph", why) from error


class Batch:
    """Collects the programs of graphs and builds them as one library. `begin` numbers them."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._graphs: list[Graph] = []
        self._sources: dict[int, CppSource] = {}
        self._alone: dict[int, Sequence[torch.Tensor]] = {}
        self._functions: dict[int, Function] = {}
        self._failures: dict[int, Exception] = {}

    def begin(self, graph: Graph) -> int:
        self._graphs.append(graph)
        return len(self._graphs) - 1

    def translate(self, number: int, module: torch.fx.GraphModule, sample: Sequence[torch.Tensor]) -> Function:
        """Translates a graph to a function that works after `build`. Raises the compiler's errors."""
        self._alone[number] = sample
        with configured(self._options), contextlib.suppress(NeedsOwnLibrary):
            self._sources[number] = source_of(module, sample)
        functions = self._functions
        return lambda *given: functions[number](*given)

    def loaded(self, number: int, executable: Executable) -> Executable:
        """Makes the executable of a function, with facts about its program."""
        source = self._sources.get(number)
        if source is None:
            return AotExecutable(executable, {"alone": True})
        facts = {"kernels": len(source.names), "library_calls": source.external, "fallbacks": source.fallbacks}
        return AotExecutable(executable, facts)

    def build(self) -> Mapping[int, Exception]:
        """Builds all translated programs. Returns the failures: `Unsupported` or `CompileFailure` by number."""
        with configured(self._options):
            self._build(sorted(self._sources))
            for number in sorted(self._alone.keys() - self._functions.keys()):
                self._build_alone(number)
        self._sources.clear()
        self._alone.clear()
        self._graphs.clear()
        return self._failures

    def _build(self, numbers: Sequence[int]) -> None:
        """Builds one library. If that fails, leaves out the sources with compiler errors; without such, builds halves.
        A program that fails alone has no function then."""
        if not numbers:
            return
        try:
            built = build([self._sources[number] for number in numbers])
        except Exception as error:
            guilty = {numbers[position] for position in accused(error)}
            if guilty:
                self._build([number for number in numbers if number not in guilty])
            elif len(numbers) > 1:
                middle = len(numbers) // 2
                self._build(numbers[:middle])
                self._build(numbers[middle:])
            return
        self._functions.update(zip(numbers, built, strict=True))

    def _build_alone(self, number: int) -> None:
        """Builds a program with AOTInductor alone, so that a failure is not caused by batching."""
        try:
            path = compile_alone(to_fx(self._graphs[number], "cpu"), self._alone[number])
            self._functions[number] = opened(path)
        except Exception as error:
            why = refusal(error)
            if why is not None:
                self._failures[number] = Unsupported(refused_operator(error) or "the graph", why)
            else:
                self._failures[number] = CompileFailure(_summary(error), refused_operator(error) or "")


def _summary(error: Exception) -> str:
    """Summarises an error; for the C++ compiler's output, its first error and not the command."""
    complaint = _COMPLAINT.search(str(causes(error)[-1]))
    return f"{type(error).__name__}: {complaint[0]}" if complaint else error_summary(error)
