"""Checks the options of the PyTorch platforms, and derives the environment variables that they need."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mindgap.platforms.protocol import Options, PlatformError
from mindgap.platforms.pytorch.device.devices import TorchDevice

#: Option -> the values it takes; None for a positive whole number.
_VALUES: Final[dict[str, tuple[str, ...] | None]] = {
    "isa": ("default", "avx2", "avx512"),
    "threads": None,
    "onednn": ("on", "off"),
    "layout": ("channels_last", "contiguous"),
    "matmul": ("highest", "high", "medium"),
    "autocast": ("bfloat16", "float16"),
    "dtype": ("float64",),
    "freezing": ("0", "1"),
    "simdlen": None,
    "stage": ("captured", "functional", "decomposed"),
    "off": (
        "passes", "pre_grad_passes", "joint_passes", "post_grad_passes", "pattern_matcher", "constant_folding",
        "layout_optimization", "vectors", "fusion", "generated_kernels",
    ),
    "opt": ("all", "off"),
    "deterministic": ("on", "off"),
    "tf32": ("on", "off"),
    "hf32": ("on", "off"),
    "sdpa": ("math", "flash", "efficient", "cudnn", "overrideable"),
    "cudnn": ("on", "off", "benchmark", "deterministic"),
    "miopen": ("on", "off", "benchmark", "deterministic"),
    "fp16_reduction": ("on", "off"),
    "bf16_reduction": ("on", "off"),
    "fp16_accumulation": ("on", "off"),
    "through": ("torchair", "inductor"),
    "pjrt": ("cpu", "tpu", "neuron"),
    "precision": ("highest", "high", "default"),
    "sync": ("graph", "node"),
}  # fmt: skip

_WORDS: Final = {
    "isa": "one tier of vector instructions for ATen, oneDNN and MKL together",
    "threads": "threads within an operator",
    "onednn": "whether operators may use oneDNN",
    "layout": "memory layout forced on inputs of 4 and 5 dimensions",
    "matmul": "how float32 matrix products may be computed",
    "autocast": "run under torch.autocast with this dtype",
    "dtype": "compute the whole graph in this dtype; outputs are cast back to the declared ones",
    "freezing": "fold parameters, buffers and constants into the compiled program",
    "simdlen": "width in bits of the vectors in generated code, 1 for none",
    "stage": "the last stage of torch.compile that runs; eager mode runs what it made",
    "off": "a part of Inductor that is left out",
    "opt": "TorchScript's optimisation of the traced program",
    "deterministic": "only algorithms that give the same bits each time; an operator that has none is refused",
    "tf32": "float32 matrix products and convolutions in TF32, or in full float32",
    "hf32": "float32 matrix products and convolutions in HF32, or in full float32",
    "sdpa": "the one kernel of scaled_dot_product_attention that is left switched on",
    "cudnn": "convolutions without cuDNN, or with it and how it chooses among its algorithms",
    "miopen": "convolutions without MIOpen, or with it and how it chooses among its algorithms",
    "fp16_reduction": "whether float16 products may be added up in float16 between blocks",
    "bf16_reduction": "whether bfloat16 products may be added up in bfloat16 between blocks",
    "fp16_accumulation": "whether float16 products may be added up in float16 throughout",
    "through": "the compiler",
    "pjrt": "the runtime that OpenXLA runs on",
    "precision": "how float32 matrix products and convolutions may be computed",
    "sync": "one XLA program for the whole graph, or one per operator",
}
#: Two ways to say one thing: PyTorch does not answer which precision holds once both have been used.
_EXCLUSIVE: Final = (("matmul", "tf32"),)


@dataclass(frozen=True, slots=True)
class Tier:
    """A tier of CPU instructions: the variables that request it, and what the libraries then report.

    `aten`: `torch.backends.cpu.get_cpu_capability()`. `onednn`: a word of its `cpu,isa:` line.
    `mkl`: the number `mkl_cbwr_get` gives on a processor of Intel's, whose other branches MKL follows
    nowhere else. `flags`: what /proc/cpuinfo must list, because asking for missing ones ends in SIGILL.
    """

    variables: Mapping[str, str]
    aten: str
    onednn: str
    mkl: int
    flags: tuple[str, ...]


TIERS: Final[dict[str, Tier]] = {
    "default": Tier(
        {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_CBWR": "COMPATIBLE"},
        "DEFAULT", "SSE4.1", 3, ("sse4_1",),
    ),
    "avx2": Tier(
        {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_CBWR": "AVX2"},
        "AVX2", "AVX2", 10, ("avx2", "fma"),
    ),
    "avx512": Tier(
        {"ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "MKL_CBWR": "AVX512"},
        "AVX512", "AVX-512", 12, ("avx512f", "avx512bw", "avx512vl", "avx512dq"),
    ),
}  # fmt: skip


def described(names: tuple[str, ...]) -> dict[str, str]:
    """Returns the values that each option takes, as text."""
    return {name: f"{'|'.join(_VALUES[name] or ('N',))}: {_WORDS[name]}" for name in names}


def checked(options: Options, names: tuple[str, ...]) -> Options:
    """Returns the options. Raises `PlatformError` for one that is not in `names` or has a bad value."""
    for key, value in options.items():
        if key not in names:
            raise PlatformError(f"no option {key!r}; there are {', '.join(names)}")
        values = _VALUES[key]
        if values is None:
            if not (value.isascii() and value.isdigit() and 0 < int(value) <= 1 << 16):
                raise PlatformError(f"option {key}={value}: not a whole number from 1 to 65536")
        elif value not in values:
            close = difflib.get_close_matches(value, values, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise PlatformError(f"option {key}={value}: not one of {'|'.join(values)}{hint}")
    for one, other in _EXCLUSIVE:
        if one in options and other in options:
            raise PlatformError(f"options {one}= and {other}= set the same precision: give one of them")
    return options


def variables(options: Options, device: TorchDevice) -> dict[str, str]:
    """Returns the environment variables that make device and options take effect at import."""
    found = {variable.name: variable.value for variable in device.variables} | switch_variables(options, device)
    if "isa" in options:
        found.update(TIERS[options["isa"]].variables)
    if "threads" in options:
        # Left to themselves MKL and OpenMP give fewer threads than asked for when cores are few.
        found.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), options["threads"]))
        found.update({"OMP_DYNAMIC": "FALSE", "MKL_DYNAMIC": "FALSE"})
    return found


def switch_variables(options: Options, device: TorchDevice) -> dict[str, str]:
    """Returns the environment variables that some of PyTorch's switches need in addition."""
    found: dict[str, str] = {}
    if options.get("deterministic") == "on" and device.torch_name == "cuda":
        # Without a fixed workspace cuBLAS chooses among algorithms by what memory is free.
        found["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    if options.get("tf32") == "on" and device.name == "rocm":
        found["HIPBLASLT_ALLOW_TF32"] = "1"
    if "pjrt" in options:
        found["PJRT_DEVICE"] = options["pjrt"].upper()
    return found
