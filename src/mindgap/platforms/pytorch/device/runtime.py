"""Manages a device in a worker: imports its package, synchronizes, describes it, detects CPU fallbacks."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import warnings
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from mindgap.aten.torch_private.operator_events import operator_events
from mindgap.platforms.protocol import Fallback, Unsupported
from mindgap.platforms.pytorch.device.devices import TorchDevice
from mindgap.platforms.pytorch.device.host_runs import boxed_fallback, from_outside, host_runs, through_boxed_fallback

#: What PyTorch and the makers' packages warn when an operator that a device lacks goes to the CPU.
_ELSEWHERE: Final = re.compile(
    r"fall(?:s|ing)?[ -]?back to (?:run(?:ning)? on )?the CPU|fallback from \w+ to CPU", re.I
)
_OPERATOR: Final = re.compile(r"'?(aten::[\w.]+)'?")
#: Reading one number back, which no device does by itself, is counted among the fallbacks of XLA.
_NO_FALLBACK: Final = frozenset({"aten::_local_scalar_dense", "aten::item"})
#: Operators of torch_xla that compute nothing: copies between host and device, new tensors, notes about aliases.
_TRANSFERS: Final = frozenset(
    f"xla::{name}" for name in ("_copy_from", "_to_cpu", "_propagate_xla_data", "empty_symint", "empty_strided_symint")
)


def attach(device: TorchDevice) -> None:
    """Imports the device's package. Raises `Fallback` if a variable was not set at the start."""
    for variable in device.variables:
        value = os.environ.get(variable.name)
        if value != variable.value and not (value is None and variable.default):
            raise Fallback(
                f"{variable.name} is {'not set' if value is None else repr(value)}, and must be "
                f"{variable.value!r} before torch is imported, or {device.name} may compute on the CPU unseen"
            )
    if device.module:
        importlib.import_module(device.module)
    if device.name != "cpu":
        # Otherwise only the first fallback of a process is reported.
        torch.set_warn_always(True)


def synchronise(device: TorchDevice) -> None:
    """Waits for the device, so that its errors are raised here; XLA starts its pending work only now."""
    if device.name == "xla":
        _module("torch_xla").sync(wait=True)
    elif device.name != "cpu":
        getattr(torch, device.torch_name).synchronize()


def hardware(device: TorchDevice) -> dict[str, Any]:
    """Returns the device's name, memory and driver versions: JSON only. Empty for the host."""
    if device.name == "cpu":
        return {}
    if device.name == "xla":
        return _xla_hardware()
    module: Any = getattr(torch, device.torch_name)
    facts: dict[str, Any] = {"hardware": f"{device.maker} {device.name}"}
    if hasattr(module, "get_device_name"):
        facts["hardware"] = str(module.get_device_name())
    if hasattr(module, "get_device_properties"):
        facts["memory_bytes"] = getattr(module.get_device_properties(0), "total_memory", None)
    elif hasattr(module, "recommended_max_memory"):
        facts["memory_bytes"] = module.recommended_max_memory()
    if device.torch_name == "cuda":
        facts |= _cuda(device)
    if device.distribution:
        facts[device.module.partition(".")[0]] = str(
            getattr(_module(device.module.partition(".")[0]), "__version__", "")
        )
    return facts


def _cuda(device: TorchDevice) -> Mapping[str, Any]:
    library: Any = torch.cuda  # typed in parts
    properties = library.get_device_properties(0)
    major, minor = torch.cuda.get_device_capability()
    facts: dict[str, Any] = {
        "architecture": getattr(properties, "gcnArchName", "") if device.name == "rocm" else f"sm_{major}{minor}",
        "multiprocessors": properties.multi_processor_count,
        "cudnn": torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None,
        "blas": str(torch.backends.cuda.preferred_blas_library()).rpartition(".")[2],
        "linalg": str(torch.backends.cuda.preferred_linalg_library()).rpartition(".")[2],
    }
    facts["hip" if device.name == "rocm" else "cuda"] = torch.version.hip or torch.version.cuda
    return facts


def _xla_hardware() -> dict[str, Any]:
    model = _module("torch_xla.core.xla_model")
    kind = str(model.xla_device_kind())
    return {
        "hardware": kind,
        "pjrt": str(_module("torch_xla.runtime").device_type()),
        "torch_xla": str(_module("torch_xla").__version__),
        "memory_bytes": _xla_memory(model),
    }


def _xla_memory(model: Any) -> int | None:
    try:
        return dict(model.get_memory_info(torch.device("xla"))).get("bytes_limit")
    except RuntimeError:  # the CPU client does not tell
        return None


def _module(name: str) -> Any:
    return importlib.import_module(name)


@dataclass(slots=True)
class Watch:
    """What was seen of a block, once it has ended.

    `unverified`: operators that ended in the boxed fallback of the device's package, where the copies that a CPU
    fallback makes cannot be seen: these may have run on the CPU. `lowered`: operators that the device's package handed
    to its compiler -> how often, where it counts that.
    """

    unverified: tuple[str, ...] = ()
    lowered: Mapping[str, int] = field(default_factory=dict[str, int])


@contextlib.contextmanager
def watched(device: TorchDevice, *, events: bool = False, operators: Collection[str] = ()) -> Generator[Watch]:
    """Raises `Unsupported` at the block's end if the device's package ran operators on the CPU.

    Detects that by warnings of torch and of the maker's package, and by counters of XLA's and Gaudi's packages; with
    `events`, of a device on PyTorch's PrivateUse1 key, by the copies within operators (`host_runs`), for which
    PyTorch's profiler runs. `operators`: those of the graph that runs, among which the error's `op` is looked for where
    a package counts by name. Ends the process (`SystemExit`) if the block broke the device for good, as a kernel's
    illegal access does.
    """
    seen = Watch()
    if device.name == "cpu":
        yield seen
        return
    before, lowered = handed_over(device), handed_to_compiler(device)
    recording = events and from_outside(device.torch_name)
    if recording:
        boxed_fallback(device.torch_name)  # measured here: it cannot run while events are recorded
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with operator_events() if recording else contextlib.nullcontext() as recorded:
                yield seen
        except Exception as error:
            if _lost(device):
                # Whatever ran next in this process would fail with this error as well, and be blamed for it.
                raise SystemExit(f"{device.name} is lost to this process: {type(error).__name__}: {error}") from error
            raise
    warned = [warning for warning in caught if _ELSEWHERE.search(str(warning.message))]
    if warned:
        named = [_OPERATOR.search(str(warning.message)) for warning in warned]
        names = dict.fromkeys(name[1] if name else "the graph" for name in named)
        raise _on_the_cpu(device, list(names), operators)
    for warning in caught:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    # One that the graph itself calls comes first: it is the one that can be named to users.
    grown = sorted(_growth(before, handed_over(device)), key=lambda name: (not _overload(name, operators), name))
    if grown:
        raise _on_the_cpu(device, grown, operators)
    seen.lowered = _growth(lowered, handed_to_compiler(device))
    if recorded is not None:
        _check_events(recorded.roots, device, seen)


def _check_events(events: list[Any], device: TorchDevice, seen: Watch) -> None:
    """Raises `Unsupported` for the first operator of the events that ran on the host."""
    measured = boxed_fallback(device.torch_name)
    runs = host_runs(events, device.torch_name, boxed=measured == "seen")
    if runs:
        names = list(dict.fromkeys(run.operator for run in runs))
        raise _on_the_cpu(device, names, (), runs[0].called)
    if measured in ("not seen", "not tried"):
        seen.unverified = tuple(through_boxed_fallback(events, device.torch_name))


def _on_the_cpu(device: TorchDevice, names: Sequence[str], operators: Collection[str], called: str = "") -> Unsupported:
    """The refusal of operators that the device's package ran on the CPU, by the package's `names`.

    `operators`: those of the graph, of which the first name may be one. `called`: the one that called the first.
    """
    first, *others = names
    operator = called or _overload(first, operators) or first
    what = "an operator" if operator == "the graph" else "it" if operator == first else first
    return Unsupported(operator, f"{what} ran on the CPU, the platform is {device.name}", others, "ran_elsewhere")


def _lost(device: TorchDevice) -> bool:
    """Returns whether the device fails to add one and one."""
    try:
        one = torch.ones(1, device=device.torch_name)
        total = float((one + one).cpu())
        synchronise(device)
    except RuntimeError:
        return True
    return total != 2.0


def handed_over(device: TorchDevice) -> dict[str, int]:
    """Returns how often each operator ran on the CPU in this process, if the device's package counts that."""
    if device.name == "xla":
        return counted_by_xla(_module("torch_xla.debug.metrics"))
    if device.name == "hpu":
        return counted_by_gaudi(_module("habana_frameworks.torch.hpu.metrics"))
    return {}


def handed_to_compiler(device: TorchDevice) -> dict[str, int]:
    """Returns how often XLA got each operator in this process; empty for other devices."""
    if device.name != "xla":
        return {}
    metrics = _module("torch_xla.debug.metrics")
    names: list[str] = [name for name in metrics.counter_names() if name.startswith("xla::")]
    return {name: int(metrics.counter_value(name) or 0) for name in names if name not in _TRANSFERS}


def _growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    growth = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: count for name, count in growth.items() if count > 0}


def _overload(name: str, operators: Collection[str]) -> str:
    """The one operator of the graph with the dispatcher's name `aten::foo`; empty where there is none, or several."""
    names = {each for each in operators if each.split(".")[:2] == name.split("::")}
    return names.pop() if len(names) == 1 else ""


def counted_by_xla(metrics: Any) -> dict[str, int]:
    """Reads the `aten::` counters of `torch_xla.debug.metrics`: one per operator that had no lowering."""
    names: list[str] = [name for name in metrics.counter_names() if name.startswith("aten::")]
    return {name: int(metrics.counter_value(name) or 0) for name in names if name not in _NO_FALLBACK}


def counted_by_gaudi(metrics: Any) -> dict[str, int]:
    """Reads the `cpu_fallback` metric of `habana_frameworks.torch.hpu.metrics`, by operator."""
    stats: dict[str, Any] = dict(metrics.metric_global("cpu_fallback").stats())
    return {str(name): int(count) for name, count in dict(stats.get("FallbackOps") or {}).items()}
