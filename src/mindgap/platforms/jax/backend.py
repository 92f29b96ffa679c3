"""Backend `jax/cpu`: compiles a graph to one XLA program, through torchax's translations to JAX."""

from __future__ import annotations

import importlib
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindgap.graph import Graph
from mindgap.platforms import dtype_policy
from mindgap.platforms.delegation import Delegation
from mindgap.platforms.jax import messages
from mindgap.platforms.messages import loading_error, running_error
from mindgap.platforms.onnx import host
from mindgap.platforms.protocol import (
    Array,
    Availability,
    Executable,
    Fallback,
    Options,
    Platform,
    Unsupported,
)

MODULES: Final = {"torch": "torch", "jax": "jax", "jaxlib": "jaxlib", "torchax": "torchax"}
_OPTIONS: Final = {
    "mode": "default|accuracy: JAX's defaults, 32 bits at most, or torchax.enable_accuracy_mode(), with 64 bits",
    "opt": "all|off: optimisation of the code that XLA generates (default all)",
    "threads": "threads of XLA's CPU client (default: one per core)",
}
_INSTRUCTION: Final = re.compile(r"^\s+(?:ROOT )?%?\S+ = .*?[\])}] ([a-z][a-z0-9-]*)\(")
_TARGET: Final = re.compile(r'custom_call_target="([^"]+)"')
#: Instructions that compute nothing.
_PLUMBING: Final = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})
#: A custom call to Python, by which a part of a program leaves XLA.
_PYTHON: Final = re.compile(r"callback", re.IGNORECASE)


class JaxBackend:
    """Makes platforms `jax/cpu`."""

    @property
    def options(self) -> Mapping[str, str]:
        return _OPTIONS

    def probe(self) -> Availability:
        return host.available(MODULES)

    def environment(self, options: Options) -> Mapping[str, str]:
        """Returns the settings that JAX and XLA read when they are imported."""
        _mode, opt, threads = _settings(options)
        found = {"JAX_PLATFORMS": "cpu"}
        if opt == "off":
            flags = os.environ.get("XLA_FLAGS", "")
            found["XLA_FLAGS"] = f"{flags} --xla_backend_optimization_level=0".strip()
        return found if threads is None else {**found, "NPROC": str(threads)}

    def open(self, options: Options) -> Platform:
        return JaxPlatform(*_settings(options))


def _settings(options: Options) -> tuple[str, str, int | None]:
    host.reject_unknown(options, _OPTIONS)
    mode = host.choice("mode", options, ("default", "accuracy"))
    return mode, host.choice("opt", options, ("all", "off")), host.thread_count(options)


class JaxPlatform:
    """Compiles programs with one set of options. `threads`: None leaves the number to XLA."""

    def __init__(self, mode: str, opt: str, threads: int | None) -> None:
        from mindgap.platforms.jax.import_torchax import import_torchax

        self._torchax = import_torchax()
        if mode == "accuracy":
            self._torchax.enable_accuracy_mode()
        self._jax: Any = importlib.import_module("jax")
        self._described = {"mode": mode, "optimization": opt, "threads": threads}
        devices = [str(device.platform) for device in self._jax.devices()]
        if devices != ["cpu"]:
            raise Fallback(f"JAX runs on {devices}, not on one CPU client")
        if bool(self._jax.config.jax_enable_x64) != (mode == "accuracy"):
            raise Fallback(f"JAX has not taken mode={mode}")

    def describe(self) -> Mapping[str, Any]:
        """Describes the platform. `client_threads`: how many threads XLA's client has started by then."""
        found = host.available(MODULES)
        policy = dtype_policy.measured_dtypes(self)
        return {
            "hardware": found.hardware,
            "cpu_flags": host.cpu_flags(),
            "versions": dict(found.versions),
            **self._described,
            "client_threads": _client_threads(),
            "x64": bool(self._jax.config.jax_enable_x64),
            "matmul_precision": str(self._jax.config.jax_default_matmul_precision),
            "xla_flags": os.environ.get("XLA_FLAGS", ""),
            dtype_policy.KEY: policy,
        }

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Compiles the graph. Raises `Unsupported` for what torchax or XLA lacks, `CompileFailure` for other errors."""
        if graph.grad:
            raise Unsupported("backward", "gradients of a PyTorch graph: JAX's users write jax.grad")
        return JaxExecutable(self._torchax.default_env(), graph, inputs)


def _client_threads() -> int:
    """Returns the number of this process's threads that XLA's client has named."""
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    return sum("XLAEigen" in name or "XLAPjRt" in name for name in names)


class JaxExecutable:
    """Runs one compiled program. `facts`: what of it ran in XLA."""

    def __init__(self, environment: Any, graph: Graph, inputs: Sequence[Array]) -> None:
        from mindgap.platforms.jax.replay import Replay

        self._environment = environment
        self._graph = graph
        self._replay = Replay(environment, graph)
        try:
            jax: Any = importlib.import_module("jax")
            self._compiled = jax.jit(self._replay.run).lower(*self._arrays(inputs)).compile()
            self.facts = {**delegation(self._compiled.as_text()).as_fact()}
        except Exception as error:
            raise self._typed(error, running=False) from error

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the program. Raises `RunFailure`, or `Unsupported` where XLA says that it lacks something."""
        try:
            return [np.array(each, order="C") for each in self._compiled(*self._arrays(inputs))]
        except Exception as error:
            raise self._typed(error, running=True) from error

    def _arrays(self, inputs: Sequence[Array]) -> list[Any]:
        """Converts inputs as torchax does, which makes 32 bits of 64 where JAX has no more."""
        from mindgap.aten.tensors import input_tensors

        return [self._environment.t2j_copy(tensor) for tensor in input_tensors(self._graph, inputs)]

    def _typed(self, error: Exception, *, running: bool) -> Exception:
        if isinstance(error, (MemoryError, Unsupported)):
            return error
        found = messages.read(error)
        op = self._replay.operator
        text = f"{type(error).__name__}: {error}"
        return running_error(found.kind, text, op) if running else loading_error(found.kind, text, op)


def delegation(program: str) -> Delegation:
    """Counts the instructions of an optimised HLO module by opcode, custom calls by their target."""
    ran, left = Counter[str](), Counter[str]()
    for line in program.splitlines():
        found = _INSTRUCTION.match(line)
        if found is None or found[1] in _PLUMBING:
            continue
        target = _TARGET.search(line)
        name = found[1] if target is None else f"custom-call {target[1]}"
        (left if target is not None and _PYTHON.search(target[1]) else ran)[name] += 1
    return Delegation("XLA", dict(ran), dict(left), "Python callbacks")


BACKEND: Final = JaxBackend()
