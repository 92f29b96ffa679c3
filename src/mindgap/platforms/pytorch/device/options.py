"""Checks the options of the PyTorch platforms, and derives the environment variables that they need."""

from __future__ import annotations

import difflib
from typing import Final

from mindgap.platforms.protocol import Options, PlatformError
from mindgap.platforms.pytorch.device.devices import TorchDevice
from mindgap.platforms.pytorch.device.instruction_levels import LIBRARIES, TIERS, requested

_FREE: Final = ("NAME",)
#: Option -> the values it takes; None for a positive whole number.
_VALUES: Final[dict[str, tuple[str, ...] | None]] = {
    "isa": tuple(TIERS),
    **{name: tuple(levels) for name, levels in LIBRARIES.items()},
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
    "without": _FREE,
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
    "aten": "the kernels of ATen alone; not together with isa=",
    "onednn_isa": "the most vector instructions that oneDNN may use; not together with isa=",
    "mkl": "the branch of kernels of MKL alone; not together with isa=",
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
    "without": "passes of Inductor that are left out, by their names, joined by +",
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
#: Two ways to say one thing. PyTorch does not answer which precision holds once matmul and tf32 have been used.
_EXCLUSIVE: Final = (("matmul", "tf32", "precision"), *(("isa", name, "level of instructions") for name in LIBRARIES))


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
        elif values is not _FREE and value not in values:
            close = difflib.get_close_matches(value, values, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise PlatformError(f"option {key}={value}: not one of {'|'.join(values)}{hint}")
    for one, other, what in _EXCLUSIVE:
        if one in options and other in options:
            raise PlatformError(f"options {one}= and {other}= set the same {what}: give one of them")
    return options


def variables(options: Options, device: TorchDevice) -> dict[str, str]:
    """Returns the environment variables that make device and options take effect at import."""
    variables_set = {variable.name: variable.value for variable in device.variables} | switch_variables(options, device)
    variables_set.update({level.variable: level.value for level in requested(options).values()})
    if "threads" in options:
        # Left to themselves MKL and OpenMP give fewer threads than requested when cores are few.
        variables_set.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), options["threads"]))
        variables_set.update({"OMP_DYNAMIC": "FALSE", "MKL_DYNAMIC": "FALSE"})
        if device.name == "xla":
            variables_set["NPROC"] = options["threads"]  # from which XLA's CPU client takes the size of its pools
    return variables_set


def switch_variables(options: Options, device: TorchDevice) -> dict[str, str]:
    """Returns the environment variables that some of PyTorch's switches need in addition."""
    variables_set: dict[str, str] = {}
    if options.get("deterministic") == "on" and device.torch_name == "cuda":
        # Without a fixed workspace cuBLAS chooses among algorithms by what memory is free.
        variables_set["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    if options.get("tf32") == "on" and device.name == "rocm":
        variables_set["HIPBLASLT_ALLOW_TF32"] = "1"
    if "pjrt" in options:
        variables_set["PJRT_DEVICE"] = options["pjrt"].upper()
    return variables_set
