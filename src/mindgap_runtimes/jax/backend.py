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
from mindgap.platforms import dtype_policy, host
from mindgap.platforms.delegation import Delegation
from mindgap.platforms.host_runtime import HostRuntime, Option, thread_count, threads
from mindgap.platforms.messages import loading_error, running_error
from mindgap.platforms.protocol import (
    WEIGHT_COPIES,
    Array,
    Executable,
    Fallback,
    Options,
    Unsupported,
)
from mindgap.platforms.script_runner import ScriptRunner, read_runner
from mindgap_runtimes.jax import messages
from mindgap_runtimes.jax.stages import jax_stage

MODULES: Final = {"torch": "torch", "jax": "jax", "jaxlib": "jaxlib", "torchax": "torchax"}
_OPTIONS: Final = (
    Option(
        "mode",
        "JAX's defaults, 32 bits at most, or torchax.enable_accuracy_mode(), with 64 bits",
        ("default", "accuracy"),
    ),
    Option("opt", "optimisation of the code that XLA generates (default all)", ("all", "off")),
    threads("threads of XLA's CPU client (default: one per core)"),
)
_PACKAGES: Final = ("jax", "torchax")
_FIRST: Final = "    weights"
_INSTRUCTION: Final = re.compile(r"^\s+(?:ROOT )?%?\S+ = .*?[\])}] ([a-z][a-z0-9-]*)\(")
_TARGET: Final = re.compile(r'custom_call_target="([^"]+)"')
#: Instructions that compute nothing.
_PLUMBING: Final = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})
#: A custom call to Python, by which a part of a program leaves XLA.
_PYTHON: Final = re.compile(r"callback", re.IGNORECASE)


class JaxPlatform:
    """Compiles programs with one set of options. `threads`: None leaves the number to XLA."""

    def __init__(self, mode: str, opt: str, threads: int | None) -> None:
        from mindgap_runtimes.jax.import_torchax import import_torchax

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
        policy = dtype_policy.measured_dtypes(self)
        return {
            **host.described(MODULES),
            WEIGHT_COPIES: 1,  # benchmarks/weight_copies.py
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
        from mindgap_runtimes.jax.replay import Replay

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
        """Runs the program. Raises `RunFailure`, or `Unsupported` where XLA reports that it lacks something."""
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
        reading = messages.read(error)
        op = self._replay.operator
        text = f"{type(error).__name__}: {error}"
        return running_error(reading.kind, text, op) if running else loading_error(reading.kind, text, op)


def delegation(program: str) -> Delegation:
    """Counts the instructions of an optimised HLO module by opcode, custom calls by their target."""
    ran, left = Counter[str](), Counter[str]()
    for line in program.splitlines():
        match = _INSTRUCTION.match(line)
        if match is None or match[1] in _PLUMBING:
            continue
        target = _TARGET.search(line)
        name = match[1] if target is None else f"custom-call {target[1]}"
        (left if target is not None and _PYTHON.search(target[1]) else ran)[name] += 1
    return Delegation("XLA", dict(ran), dict(left), "Python callbacks")


def _variables(options: Options) -> Mapping[str, str]:
    """Returns the settings that JAX and XLA read when they are imported."""
    variables = {"JAX_PLATFORMS": "cpu"}
    if options["opt"] == "off":
        flags = os.environ.get("XLA_FLAGS", "")
        variables["XLA_FLAGS"] = f"{flags} --xla_backend_optimization_level=0".strip()
    return {**variables, "NPROC": options["threads"]} if "threads" in options else variables


def _script(options: Options) -> ScriptRunner:
    """`opt` and `threads` are variables of the environment."""
    accurate = "    torchax.enable_accuracy_mode()\n    weights"
    edits = {_FIRST: accurate} if "mode" in options else {}
    return read_runner(Path(__file__).with_name("run.py"), _PACKAGES, edits=edits)


BACKEND: Final = HostRuntime(
    MODULES,
    lambda options: JaxPlatform(options["mode"], options["opt"], thread_count(options)),
    _OPTIONS,
    _variables,
    script=_script,
    stage_at_fault=jax_stage,
    packages=_PACKAGES,
    recipe=Path(__file__).with_name("jax.toml"),
    front_end=lambda options: "torchax",
)
