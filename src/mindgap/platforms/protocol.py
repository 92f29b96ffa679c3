"""The interface between platforms and the rest of the program: `Backend`, `Platform`, `Executable`, and their errors.

A third party adds one with a module and an entry point in the group `mindgap.platforms`, whose name
is the platform's (`cpu/eager`) and whose object is a `Backend`. `probe`, `options` and `environment`
are called in the parent process, which imports no framework it does not need: a backend module
imports its framework inside `probe` and `open` only. `open` is called in a worker process.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from mindgap.graph import Array, Graph, MindgapError
from mindgap.graph.compare.reason import FallbackKind

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import ScriptRunner
    from mindgap.platforms.stages import Stage, VariantRuns

Options = Mapping[str, str]
#: Key of `describe()`: true for a runtime whose users run inference only. Campaigns give it no gradient operators.
INFERENCE_ONLY: Final = "inference_only"
#: Key of `describe()`: true for a compiler that compiles what PyTorch decomposes operators into. A decomposition that
#: gives the same result as such a platform is no independent evidence. Absent means false.
PYTORCH_DECOMPOSITIONS: Final = "pytorch_decompositions"
#: Key of `describe()`: `simulated` or `emulated` where no device, or another instruction set, computes. Absent: native.
EXECUTION: Final = "execution"
#: Key of `describe()`: the language that promises how accurate the functions of the platform's kernels are (`WGSL`).
ACCURACY: Final = "accuracy"
#: Key of `describe()`: how exact the arithmetic is of a platform that no hardware runs (`simulated_arithmetic`).
ARITHMETIC: Final = "arithmetic"
#: Key of `describe()`: how many copies of the weights the platform makes for itself. Absent means `MOST_COPIES`.
WEIGHT_COPIES: Final = "weight_copies"
#: Key of `describe()`: the same of weights of 16 bits, for a runtime that widens them. Absent: as of others.
HALF_WEIGHT_COPIES: Final = "half_weight_copies"
#: Of such a runtime: with 0.83 GiB of weights in float16 (0.44 billion parameters) all processes took 4.7 GiB on ONNX
#: Runtime and on OpenVINO (`mindgap diff 'hub:FOLDER?dtype=float16&length=16' --no-judge`), about 1 of it without them.
WIDENED_COPIES: Final = 4.0
#: A runtime that transposes weights and packs them for its kernels holds both.
MOST_COPIES: Final = 2.0
#: Keys of `describe()` that a backend's code declares, or that are known later. Fingerprints omit them.
DECLARED: Final = frozenset(
    {INFERENCE_ONLY, PYTORCH_DECOMPOSITIONS, WEIGHT_COPIES, HALF_WEIGHT_COPIES, ACCURACY, ARITHMETIC}
)
#: Key of `Executable.facts`: operators that ended in a fallback of the device's package, where nothing shows whether
#: that runs on the CPU.
UNVERIFIED: Final = "may_have_run_on_the_cpu"
#: What identifies the bytes of a node's result: a digest (`compare.digest.digest_bytes`); the number of the value that
#: it is a view of, while that value's digest still holds; or None where the operator returned no tensor.
ValueDigest = str | int | None


class PlatformError(MindgapError):
    """A platform is used wrongly: unknown name, option or value."""


def require_names(option: str, names: Sequence[str], known: Collection[str], where: str) -> None:
    """Raises `PlatformError` for a name in an option's value that is not known, with the nearest ones."""
    for name in names:
        if name not in known:
            nearest = ", ".join(difflib.get_close_matches(name, known, n=5, cutoff=0.0))
            raise PlatformError(f"option {option}={name}: {where} has no such name; the nearest are {nearest}")


class NotOnThisMachine(PlatformError):
    """A value names something that this machine lacks. A host may have it."""


class Unsupported(Exception):
    """A typed refusal: this platform does not implement this operator or dtype.

    `op`: the operator of the graph, or the runtime's own name where that is all that is known. `also`: the runtime's
    names of others that are refused for the same reason. `fallback`: another part of the runtime ran it, or would.
    """

    def __init__(self, op: str, why: str, also: Sequence[str] = (), fallback: FallbackKind | None = None) -> None:
        super().__init__(f"{op}: {why}")
        self.op = op
        self.why = why
        self.also = tuple(also)
        self.fallback: FallbackKind | None = fallback


class CompileFailure(Exception):
    """The platform should be able to run the graph, and failed to translate or compile it.

    `op`: the operator that the platform names, empty where it names none.
    """

    def __init__(self, message: str, op: str = "") -> None:
        super().__init__(message)
        self.op = op


class RunFailure(Exception):
    """The platform loaded the graph and failed to run it. `op`: the operator that it names, empty for none."""

    def __init__(self, message: str, op: str = "") -> None:
        super().__init__(message)
        self.op = op


class DeviceLost(SystemExit):
    """The device is lost to this process: nothing runs on it any more, and the worker ends."""


class Fallback(Exception):
    """A setting is not in force, or part of the graph ran on another device, in another precision or on another
    delegate than the platform's. An operator that the device lacks and its package runs on the CPU is `Unsupported`.
    """


@dataclass(frozen=True, slots=True)
class Availability:
    """The result of a probe.

    reason: why the platform is not available, in one line.
    execution: as `describe()` has it under `EXECUTION`; empty for native.
    """

    available: bool
    reason: str = ""
    hardware: str = ""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    execution: str = ""


@runtime_checkable
class Executable(Protocol):
    """A loaded graph. It can be called again, and leaves inputs unchanged."""

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the graph on all inputs in order (numpy, ml_dtypes). Returns all outputs, C-contiguous."""
        ...


@runtime_checkable
class Traceable(Protocol):
    """An executable that can also return every node's outputs. `mindgap trace` then compares them as they were made."""

    def trace(self, inputs: Sequence[Array], numbers: Collection[int] | None = None) -> list[Array | None]:
        """Returns every output slot of every node, in value order after the inputs, as of its creation.

        `numbers`: the values that are wanted; the others are None.
        """
        ...


@runtime_checkable
class DigestsValues(Protocol):
    """A `Traceable` executable that digests values itself, faster than `trace` copies them all."""

    def digest_values(self, inputs: Sequence[Array]) -> tuple[list[Array], list[ValueDigest]]:
        """Returns the outputs, and the digest of every output slot of every node as of its creation."""
        ...


class Platform(Protocol):
    """An opened platform, in a worker."""

    def describe(self) -> Mapping[str, Any]:
        """Describes hardware, library versions, CPU flags, active settings. JSON only; kept with every outcome."""
        ...

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Loads a graph. May fold the inputs whose role is neither `input` nor `random`.

        Raises `Unsupported` or `CompileFailure`.
        """
        ...


@runtime_checkable
class LoadsMany(Protocol):
    """A platform that loads several graphs together faster than one by one."""

    def load_many(self, graphs: Sequence[Graph], inputs: Sequence[Sequence[Array]]) -> list[Executable | Exception]:
        """Returns, for each graph, the result of `load` or the error that it would raise.

        One graph's failure and results must not depend on the other graphs.
        """
        ...


class Backend(Protocol):
    """One entry in the registry: makes platforms of one DEVICE/MODE."""

    @property
    def options(self) -> Mapping[str, str]:
        """The values that each option takes, as text (`sse41|avx2|avx512`)."""
        ...

    def probe(self) -> Availability: ...

    def environment(self, options: Options) -> Mapping[str, str]:
        """Returns the worker's environment variables. Raises `PlatformError` for a bad option or value."""
        ...

    def open(self, options: Options) -> Platform: ...


@runtime_checkable
class Forkable(Protocol):
    """A backend whose workers may be forked from a process that has imported PyTorch for the CPU, and nothing else.

    `forkable`: its workers import PyTorch in any case, and a device's driver, which does not survive a fork, is not
    among what PyTorch loads. Workers of other backends are started by their command line.
    """

    @property
    def forkable(self) -> bool: ...


@runtime_checkable
class Batching(Protocol):
    """A backend whose platforms are `LoadsMany`.

    `batch`: how many small graphs `diff` and `upgrade` give it together, at least 1.
    """

    @property
    def batch(self) -> int: ...


@runtime_checkable
class Scripted(Protocol):
    """A backend whose platforms a short script runs, without mindgap."""

    def script_runner(self, options: Options) -> ScriptRunner | None:
        """Returns how a script runs the platform; None if its options have no short form."""
        ...


@runtime_checkable
class RunsPrograms(Protocol):
    """A backend whose users run a whole program otherwise than a script runs one operator."""

    def program_runner(self, options: Options) -> ScriptRunner | None:
        """Returns how they run it; None if the options have no short form."""
        ...


@runtime_checkable
class RunsFiles(Protocol):
    """A backend whose runtime runs ready-made model files.

    `file_suffixes`: those that it reads, such as `.onnx`.
    """

    @property
    def file_suffixes(self) -> Sequence[str]: ...

    def file_runner(self, options: Options, file: str) -> ScriptRunner | None:
        """Returns what runs a file on a program's arguments; None if the options have no short form. Its function
        matches the file's inputs with the arguments by `model.matched(inputs, tensors)`."""
        ...


@runtime_checkable
class Staged(Protocol):
    """A backend that finds which stage of its runtime brings a fault.

    `stage_at_fault`: runs variants of the platform and decides; None where no option switches a stage off.
    """

    @property
    def stage_at_fault(self) -> Callable[[VariantRuns], Stage] | None: ...


@runtime_checkable
class Packaged(Protocol):
    """A backend whose results depend on the versions of packages besides PyTorch.

    `packages`: their distributions, the runtime's first.
    """

    @property
    def packages(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another option of a platform, for what its options bring.

    `option`: `name=value`. `remedies`: a dtype that it computes as declared, where the platform's default computes it
    in fewer bits; `int8`, where the default quantises the float operands of products with integer weights; or
    `refusals`, where it may run graphs that the default refuses. `setting`: what users of the runtime do for the same,
    as a clause.
    """

    option: str
    remedies: str
    setting: str


@runtime_checkable
class Advised(Protocol):
    """A backend with options that are an alternative to its defaults (`results.advice`)."""

    @property
    def alternatives(self) -> Sequence[Alternative]: ...


@runtime_checkable
class HasRecipe(Protocol):
    """A backend for which mindgap can make an environment (`environments.recipe`).

    `recipe`: a TOML file next to the backend, named for the environment; None for a backend without one.
    """

    @property
    def recipe(self) -> Path | None: ...


@runtime_checkable
class Translated(Protocol):
    """A backend whose runtime gets programs of PyTorch through a front end that other runtimes may use too.

    What the front end does wrong is one cause for all of them.
    """

    def front_end(self, options: Options) -> str:
        """Returns the front end's name, such as `torch.onnx`; empty for one of the runtime alone."""
        ...


@runtime_checkable
class SharesCompiler(Protocol):
    """A backend whose code another platform's compiler generates. What that does wrong is one cause for both.

    `compiled_as`: the other platform (`DEVICE/MODE`); empty for a separate compiler.
    """

    @property
    def compiled_as(self) -> str: ...


@runtime_checkable
class NotNative(Protocol):
    """A backend whose platforms no hardware of their kind runs. Its probe and `describe()` say so too (`EXECUTION`).

    `execution`: `simulated` or `emulated`; empty where hardware runs them.
    """

    @property
    def execution(self) -> str: ...
