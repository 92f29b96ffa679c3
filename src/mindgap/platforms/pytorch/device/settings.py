"""Sets options in a worker, and verifies that they take effect."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import tempfile
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.tensors import TORCH_DTYPES, to_torch
from mindgap.aten.torch_private.switches import onednn_enabled
from mindgap.platforms.protocol import Fallback, Options, Unsupported
from mindgap.platforms.pytorch.device.availability import processor
from mindgap.platforms.pytorch.device.devices import TorchDevice
from mindgap.platforms.pytorch.device.host_runs import boxed_fallback, from_outside
from mindgap.platforms.pytorch.device.instruction_levels import Level, asked, requested
from mindgap.platforms.pytorch.device.runtime import attach, hardware, watched
from mindgap.platforms.pytorch.device.switches import fp32_precisions, not_in_force, switches
from mindgap.platforms.pytorch.refusals import refusal

_BRANCHES: Final = {
    1: "off", 2: "auto", 3: "compatible", 4: "sse2", 6: "ssse3", 7: "sse4.1", 8: "sse4.2", 9: "avx", 10: "avx2",
    12: "avx512", 14: "avx512_e1",
}  # fmt: skip
_ENVIRONMENT: Final = (
    "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_MAX_CPU_ISA", "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "MKL_DYNAMIC", "OMP_DYNAMIC",
    "NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG", "TORCH_BLAS_PREFER_HIPBLASLT",
    "HIPBLASLT_ALLOW_TF32", "PYTORCH_ENABLE_MPS_FALLBACK", "PYTORCH_ENABLE_XPU_FALLBACK",
    "TORCH_NPU_FALLBACK_CPU_DISABLE", "PT_HPU_LAZY_MODE", "PT_ENABLE_INT64_SUPPORT", "PJRT_DEVICE", "XLA_FLAGS",
    "NPROC",
)  # fmt: skip
#: A float32 product keeps some 21 bits, one in bfloat16 or tf32 at most 11.
_FLOAT32_BITS: Final = 16


def check_tier(options: Options) -> None:
    """Raises `Fallback` if this processor lacks instructions that the options request: using one would crash."""
    flags = processor().flags
    needed = dict.fromkeys(flag for level in requested(options).values() for flag in level.flags)
    missing = [flag for flag in needed if flag not in flags] if flags else []
    if missing:
        raise Fallback(f"{asked(options)}: this processor has no {', '.join(missing)}")


def establish(options: Options, device: TorchDevice) -> dict[str, Any]:
    """Sets the lasting options and describes the active ones. Raises `Fallback` if one has no effect,
    and `Unsupported` if the device runs what measures that on the CPU."""
    attach(device)
    if "threads" in options:
        torch.set_num_threads(int(options["threads"]))
    with in_force(options, device):
        fault = not_in_force(options, device)
        if fault:
            raise Fallback(fault)
        with watched(device):
            settings = _described(options, device)
        if from_outside(device.torch_name):
            settings["boxed_fallback"] = boxed_fallback(device.torch_name)
        if "autocast" not in options:
            settings["float32_product_bits"] = product_bits(device)
    _verify(options, device, settings)
    return settings


@contextlib.contextmanager
def in_force(options: Options, device: TorchDevice) -> Generator[None]:
    """Sets, within a block, the options that PyTorch can change at any time."""
    with contextlib.ExitStack() as stack:
        for switch in switches(options, device):
            stack.callback(switch.write, switch.read())
            switch.write(switch.target)
        if "dtype" in options:
            stack.callback(torch.set_default_dtype, torch.get_default_dtype())
            torch.set_default_dtype(TORCH_DTYPES[options["dtype"]])
        if "autocast" in options:
            stack.enter_context(torch.autocast(device.torch_name, TORCH_DTYPES[options["autocast"]]))
        yield


def product_bits(device: TorchDevice) -> dict[str, int]:
    """Measures how many leading bits of a float32 matrix product and convolution are right, against float64.

    `matmul` or `conv` is absent where the device has no kernel for it.
    """
    left = to_torch(_spread(128 * 128).reshape(128, 128))
    right = to_torch(_spread(128 * 128, 0.7548776662).reshape(128, 128))
    image, kernel = left.reshape(2, 16, 16, 32), right[:36].reshape(16, 32, 3, 3)[:, :16].contiguous()
    bits: dict[str, int] = {}
    products: list[tuple[str, Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = [
        ("matmul", torch.mm, (left, right)),
        ("conv", torch.conv2d, (image, kernel)),
    ]
    for name, function, operands in products:
        try:
            with torch.no_grad(), watched(device, events=True):
                result = function(*(operand.to(device.torch_name) for operand in operands)).cpu()
        except Unsupported:
            continue
        except RuntimeError as error:
            if refusal(error) is None:
                raise
            continue
        exact = function(*(operand.double() for operand in operands))
        worst = float((result.double() - exact).abs().max() / exact.abs().max())
        bits[name] = 53 if worst == 0 else int(-np.log2(worst)) if np.isfinite(worst) else 0
    return bits


def onednn_isa() -> str:
    """Returns the instruction set that oneDNN reports, empty without a report.

    This build has no call for it and prints the line once, so the first answer is cached. The standard output of the
    process is redirected for those milliseconds.
    """
    global _isa_line
    if _isa_line is None:
        _isa_line = ""
        for line in _printed_by_onednn().splitlines():
            if ",cpu,isa:" in line:
                _isa_line = line.partition(",cpu,isa:")[2].strip()
    return _isa_line


_isa_line: str | None = None


def _printed_by_onednn() -> str:
    if not torch.backends.mkldnn.is_available():
        return ""
    libc = ctypes.CDLL(None)
    libc.fflush(None)
    with tempfile.TemporaryFile() as sink:
        standard = os.dup(1)
        os.dup2(sink.fileno(), 1)
        try:
            with torch.backends.mkldnn.verbose(1):
                torch.ones(8, 8, dtype=torch.float32).to_mkldnn().relu().to_dense()
        finally:
            libc.fflush(None)
            os.dup2(standard, 1)
            os.close(standard)
        sink.seek(0)
        return sink.read().decode(errors="replace")


def mkl_branch() -> str:
    """Returns MKL's branch of kernels (`MKL_CBWR`), empty without MKL."""
    number = _mkl_number()
    return "" if number is None else _BRANCHES.get(number, f"branch {number}")


def _mkl_number() -> int | None:
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        return int(ctypes.CDLL(str(library)).mkl_serv_cbwr_get(1))
    except (OSError, AttributeError):
        return None


def _described(options: Options, device: TorchDevice) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "device": device.name,
        "processor": processor().name,
        "options": dict(options),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_git": torch.version.git_version,
        "numpy": np.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "onednn": torch.backends.mkldnn.is_available() and onednn_enabled(),
        "onednn_isa": onednn_isa(),
        "mkl_branch": mkl_branch(),
        "threads": thread_counts(),
        "matmul_precision": _matmul_precision(),
        "fp32_precision": fp32_precisions(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "environment": {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
    }
    return facts | hardware(device)


def _matmul_precision() -> str:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # it has no word for a state in which the libraries differ
        return "mixed"


def thread_counts() -> dict[str, int]:
    """Returns the thread counts of ATen, OpenMP and MKL, as PyTorch reports them."""
    counts = {"aten": torch.get_num_threads()}
    for line in torch.__config__.parallel_info().splitlines():
        for name, call in (("openmp", "omp_get_max_threads() :"), ("mkl", "mkl_get_max_threads() :")):
            _, there, number = line.partition(call)
            if there:
                counts[name] = int(number)
    return counts


def _verify(options: Options, device: TorchDevice, description: Mapping[str, Any]) -> None:
    levels = requested(options)
    wrong = [fault for library, level in levels.items() if (fault := _not_followed(library, level, description))]
    if wrong:
        raise Fallback(f"{asked(options)} is not in force: {'; '.join(wrong)}; these act at start only")
    if "threads" in options:
        other = {name: n for name, n in description["threads"].items() if n != int(options["threads"])}
        if other:
            raise Fallback(f"threads={options['threads']} is not in force: {other}")
    if "pjrt" in options and str(description.get("pjrt", "")).lower() != options["pjrt"]:
        raise Fallback(f"pjrt={options['pjrt']}, and OpenXLA runs on {description.get('pjrt')}")
    if options.get("onednn") == "on" and not description["onednn"]:
        raise Fallback("onednn=on, and this build of torch has no oneDNN")
    bits = description.get("float32_product_bits")
    if bits is not None:
        _verify_bits(options, device, bits)


def _not_followed(library: str, level: Level, description: Mapping[str, Any]) -> str:
    """Returns what the library uses instead of the level, empty if it uses the level."""
    if library == "aten":
        return "" if description["capability"] == level.reported else f"ATen uses {description['capability']}"
    if library == "onednn_isa":
        reported = str(description["onednn_isa"])
        # "Intel AVX" is also how "Intel AVX2" begins.
        follows = reported == level.reported or reported.startswith(f"{level.reported} ")
        if follows or not torch.backends.mkldnn.is_available():
            return ""
        return f"oneDNN uses {reported or 'what it does not say'}"
    # MKL follows the vector branches on processors of Intel's only, the compatible one everywhere.
    obeys = processor().vendor == "GenuineIntel" or level.value == "COMPATIBLE"
    number = _mkl_number()
    return f"MKL uses {mkl_branch()}" if obeys and number is not None and str(number) != level.reported else ""


def _verify_bits(options: Options, device: TorchDevice, bits: Mapping[str, int]) -> None:
    """Raises `Fallback` if the measured precision is not the requested one; the host's default is full precision."""
    switch = next((name for name in ("tf32", "hf32") if name in options), "")
    exact = bool(switch) or options.get("matmul") == "highest" or options.get("precision") == "highest"
    matmul, conv = bits.get("matmul"), bits.get("conv", _FLOAT32_BITS)
    if matmul is None:
        if exact:
            raise Fallback(
                f"{device.name} does not run float32 matrix products itself: their precision is not to be set"
            )
        return
    if switch and options[switch] == "on":
        if matmul >= _FLOAT32_BITS:
            raise Fallback(f"{switch}=on, and float32 matrix products keep {matmul} bits: it is not to be had here")
        return
    reducible = not exact and (device.name != "cpu" or options.get("matmul") in ("high", "medium"))
    if matmul < _FLOAT32_BITS and not reducible:
        raise Fallback(f"float32 matrix products keep {matmul} bits only, and nobody asked for that")
    if conv < _FLOAT32_BITS and not reducible and (device.name == "cpu" or switch or "precision" in options):
        raise Fallback(f"float32 convolutions keep {conv} bits only, and nobody asked for that")


def _spread(count: int, step: float = 0.6180339887) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Returns values in [-0.5, 0.5) whose low-precision products are not right by chance."""
    return ((np.arange(count) * step) % 1.0 - 0.5).astype(np.float32)
