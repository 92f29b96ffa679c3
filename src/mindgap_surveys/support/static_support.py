"""Reads which operators platforms have by the lists that PyTorch and runtimes ship. Nothing is run on a device.

A list is a claim. `disagreements` compares it with what was measured.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final, Literal

from mindgap.aten.torch_private.native_functions import declared_kernels
from mindgap.graph import MindgapError
from mindgap.platforms.environments import find
from mindgap.platforms.name import PlatformName
from mindgap_surveys.support.matrix import RUNS, Matrix

#: - `kernel`: the list names a kernel, a translation or a conversion rule for the overload.
#: - `composite`: it is made of other operators, on every device.
#: - `none`: the list does not name it.
#: - `unknown`: the list is in another package, which is not installed.
StaticWord = Literal["kernel", "composite", "none", "unknown"]

#: Devices of PyTorch, and whether the sources of PyTorch hold all of their kernels.
_DEVICES: Final[Mapping[str, str]] = {
    "CPU": "",
    "CUDA": "",
    "MPS": "",
    "XPU": "most kernels are in torch-xpu-ops, whose list comes with PyTorch's build for XPU",
    "PrivateUse1": "kernels are the maker's package's (torch_npu), which registers them when it is imported",
    "HPU": "kernels are in habana_frameworks",
}
_COMPOSITE: Final = frozenset({
    "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional",
})  # fmt: skip
_ATEN: Final = re.compile(r"torch\.ops\.aten\.(\w+)(?:\.(\w+))?")


@dataclass(frozen=True)
class StaticList:
    """A list of operators that a package holds.

    name: what has the operators (`CUDA`, `ONNX exporter`). package: where the list is, with its version.
    words: by overload; one that is missing is `none`, or `unknown` for the reason in `unknown_otherwise`.
    """

    name: str
    package: str
    words: Mapping[str, StaticWord]
    unknown_otherwise: str = ""

    def word(self, op: str) -> StaticWord:
        """Returns the list's word for an overload. An in-place overload that it does not name counts as its
        functional form."""
        words = self.words.get(op) or self.words.get(functional_name(op)) or "none"
        return "unknown" if words == "none" and self.unknown_otherwise else words

    def counts(self, ops: Iterable[str]) -> Mapping[StaticWord, int]:
        """Returns how many of the overloads have each word."""
        by_word = Counter(map(self.word, ops))
        words: tuple[StaticWord, ...] = ("kernel", "composite", "none", "unknown")
        return {word: by_word[word] for word in words}


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Overloads of which a list and the measurement of a platform say the opposite.

    listed: the list has them, and no key that was tried runs. unlisted: the list lacks them, and some key runs.
    """

    platform: PlatformName
    name: str
    listed: tuple[str, ...]
    unlisted: tuple[str, ...]


def functional_name(op: str) -> str:
    """Returns the overload's name without the mark of an in-place form: `aten.relu_.default` -> `aten.relu.default`."""
    namespace, packet, overload = op.split(".")
    return f"{namespace}.{packet.removesuffix('_') if not packet.endswith('__') else packet}.{overload}"


def device_lists() -> list[StaticList]:
    """Returns what PyTorch's own sources declare for each device. Raises `ImportError` without `torchgen`."""
    kernels = declared_kernels()
    lists: list[StaticList] = []
    for device, elsewhere in _DEVICES.items():
        words: dict[str, StaticWord] = {}
        for op, keys in kernels.items():
            if device in keys:
                words[op] = "kernel"
            elif keys & _COMPOSITE and _runs_in_place(op, keys, device, kernels):
                words[op] = "composite"
            elif keys:
                words[op] = "none"
        lists.append(StaticList(device, _package("torch"), words, elsewhere))
    return lists


def _runs_in_place(op: str, keys: Set[str], device: str, kernels: Mapping[str, Set[str]]) -> bool:
    """Whether a device has what a composite is made of: a functional form that is generated (`_fused_adagrad`) calls
    the in-place one."""
    namespace, packet, overload = op.split(".")
    in_place = kernels.get(f"{namespace}.{packet}_.{overload}")
    if in_place is None or "CompositeExplicitAutograd" not in keys:
        return True
    return device in in_place or bool(in_place & _COMPOSITE)


def runtime_lists() -> tuple[list[StaticList], Mapping[str, str]]:
    """Returns the lists of the runtimes that are installed, here or in environments, and why others are missing."""
    lists: list[StaticList] = []
    absent: dict[str, str] = {}
    for name, read in _READERS.items():
        try:
            package, names = read()
            lists.append(StaticList(name, package, dict.fromkeys(names, "kernel")))
        except MindgapError as error:
            absent[name] = str(error)
        except (ImportError, OSError, PackageNotFoundError, AttributeError) as error:
            absent[name] = " ".join(f"{type(error).__name__}: {error}".split())
    return lists, absent


def list_of(platform: PlatformName) -> str:
    """Returns the name of the list that is about a platform; empty where no package holds one."""
    if platform.device_mode == "openvino/cpu":
        return "ONNX exporter" if platform.backend_options.get("frontend") == "onnx" else "OpenVINO"
    return _LIST_OF.get(platform.device_mode.partition("/")[0], "")


def disagreements(matrix: Matrix, lists: Collection[StaticList]) -> list[Disagreement]:
    """Compares each platform's measured cells with the list that is about it."""
    by_name = {each.name: each for each in lists}
    disagreements_found: list[Disagreement] = []
    for platform in matrix.platforms:
        of = by_name.get(list_of(platform))
        if of is None:
            continue
        listed: list[str] = []
        unlisted: list[str] = []
        for op, keys in matrix.operators.items():
            words = [word for key in keys if (word := matrix.cells[platform][key].word) != "untried"]
            runs = any(word in RUNS for word in words)
            if words and not runs and of.word(op) == "kernel":
                listed.append(op)
            elif runs and of.word(op) == "none":
                unlisted.append(op)
        disagreements_found.append(Disagreement(platform, of.name, tuple(listed), tuple(unlisted)))
    return disagreements_found


@dataclass(frozen=True, slots=True)
class MeasuredLists:
    """Lists, and where they are not what was measured. `absent`: lists that are not here, and why."""

    lists: Sequence[StaticList]
    absent: Mapping[str, str]
    disagreements: Sequence[Disagreement] = ()


def all_lists(matrix: Matrix | None = None) -> MeasuredLists:
    """Reads the lists of PyTorch and of runtimes' packages. `matrix`: what was measured."""
    runtimes, absent = runtime_lists()
    lists = [*device_lists(), *runtimes]
    return MeasuredLists(lists, absent, disagreements(matrix, lists) if matrix is not None else ())


@dataclass(frozen=True, slots=True)
class KernelRegistry:
    """What ONNX Runtime's package has of the ONNX operators of the newest opset, for one provider.

    kernels: operators with a kernel. functions: those without one that ONNX defines by others. lacks: the rest.
    """

    provider: str
    kernels: tuple[str, ...]
    functions: tuple[str, ...]
    lacks: tuple[str, ...]


def onnxruntime_kernels() -> list[KernelRegistry]:
    """Reads the kernel registry of the installed ONNX Runtime. Raises `ImportError` where it is not installed."""
    import onnx.defs
    import onnxruntime.capi.onnxruntime_pybind11_state as state

    registry: Any = state  # without types, as functions of a schema are
    schemas: list[Any] = [each for each in onnx.defs.get_all_schemas() if each.domain == "" and not each.deprecated]
    standard = {each.name for each in schemas}
    made = {each.name for each in schemas if each.has_function or each.has_context_dependent_function}
    by_provider: dict[str, set[str]] = {}
    for kernel in registry.get_all_opkernel_def():
        if kernel.domain in ("", "ai.onnx"):
            by_provider.setdefault(kernel.provider, set()).add(kernel.op_name)
    return [
        KernelRegistry(
            provider, tuple(sorted(names & standard)), tuple(sorted(made - names)),
            tuple(sorted(standard - names - made)),
        )
        for provider, names in sorted(by_provider.items())
    ]  # fmt: skip


#: A package with its version, and the overloads that it lists.
_Listed = tuple[str, list[str]]


def _onnx_exporter() -> _Listed:
    from mindgap.aten.torch_private.onnx_exporter import translation_registry
    from mindgap.platforms.onnx.fx_program import OPSET

    functions: Mapping[object, object] = translation_registry(OPSET).functions
    names = [str(each).replace("::", ".", 1) if isinstance(each, str) else f"aten.{each}" for each in functions]
    return _package("torch"), [name if name.count(".") == 2 else f"{name}.default" for name in names]


def _openvino() -> _Listed:
    from openvino.frontend.pytorch.torchdynamo import op_support

    return _package("openvino"), _named_in(Path(str(op_support.__file__)))


def _executorch() -> _Listed:
    file = _site_packages("executorch") / "executorch/kernels/portable/functions.yaml"
    kernels = set(re.findall(r"^- op: (\w+)\.(\w+)", file.read_text(encoding="utf-8"), re.M))
    listed: list[str] = []
    for op in declared_kernels():
        _, packet, overload = op.split(".")
        # Its kernels write into an operand that is given: `add.out` is the kernel of `add.Tensor`.
        out = {"default": ("out",)}.get(overload, (f"{overload}_out", "out"))
        if any((packet, each) in kernels for each in out):
            listed.append(op)
    return _version_in("executorch", "executorch"), listed


def _tvm() -> _Listed:
    file = _site_packages("tvm") / "tvm/relax/frontend/torch/exported_program_translator.py"
    names = re.findall(r'^\s+"(\w+\.\w+)": ', file.read_text(encoding="utf-8"), re.M)
    return _version_in("tvm", "apache_tvm"), [f"aten.{each}" for each in names]


def _torchax() -> _Listed:
    return _version_in("jax", "torchax"), _named_in(_site_packages("jax") / "torchax/ops/jaten.py")


_READERS: Final[Mapping[str, Callable[[], _Listed]]] = {
    "ONNX exporter": _onnx_exporter, "OpenVINO": _openvino, "ExecuTorch portable": _executorch, "TVM": _tvm,
    "torchax": _torchax,
}  # fmt: skip
#: The list that is about the platforms of a runtime.
_LIST_OF: Final[Mapping[str, str]] = {
    "cpu": "CPU", "cuda": "CUDA", "mps": "MPS", "xpu": "XPU", "npu": "PrivateUse1", "hpu": "HPU",
    "onnx": "ONNX exporter", "onnxruntime": "ONNX exporter", "ortweb": "ONNX exporter", "tinygrad": "ONNX exporter",
    "rknn": "ONNX exporter", "executorch": "ExecuTorch portable", "tvm": "TVM", "jax": "torchax",
}  # fmt: skip


def _named_in(file: Path) -> list[str]:
    """Returns the overloads `torch.ops.aten.X.Y` that a file names; a packet alone is all of its overloads."""
    overloads = set(_ATEN.findall(file.read_text(encoding="utf-8")))
    declared = (op.split(".") for op in declared_kernels())
    return [".".join(op) for op in declared if not overloads.isdisjoint(((op[1], op[2]), (op[1], "")))]


def _package(name: str) -> str:
    return f"{name}=={distribution(name).version}"


def _version_in(environment: str, project: str) -> str:
    folders = sorted(_site_packages(environment).glob(f"{project}-*.dist-info"))
    return f"{project}=={folders[0].name.removesuffix('.dist-info').partition('-')[2]}" if folders else project


def _site_packages(environment: str) -> Path:
    """Returns where an environment's packages are. Raises `EnvironmentProblem` where there is none of that name."""
    python = Path(find(environment).python)
    folders = sorted((python.parent.parent / "lib").glob("python3*/site-packages"))
    if not folders:
        raise MindgapError(f"environment {environment}: no packages beside {python}")
    return folders[0]
