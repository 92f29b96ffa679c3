"""Levels of vector instructions of ATen, oneDNN and MKL: how each is requested, and what the library then reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mindgap.platforms.protocol import Options


@dataclass(frozen=True, slots=True)
class Level:
    """A level of one library.

    `variable`, `value`: the environment variable that requests it. `reported`: what the library reports then: ATen
    `torch.backends.cpu.get_cpu_capability()`, oneDNN the beginning of its `cpu,isa:` line, MKL the number of
    `mkl_cbwr_get`. `flags`: what /proc/cpuinfo must list, because requesting missing instructions ends in SIGILL.
    """

    variable: str
    value: str
    reported: str
    flags: tuple[str, ...]


_AVX2: Final = ("avx2", "fma")
_AVX512: Final = ("avx512f", "avx512bw", "avx512vl", "avx512dq")
_ATEN, _ONEDNN, _MKL = "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_CBWR"
#: Option -> its values. MKL follows its vector branches on processors of Intel's only.
LIBRARIES: Final[Mapping[str, Mapping[str, Level]]] = {
    "aten": {
        "default": Level(_ATEN, "default", "DEFAULT", ()),
        "avx2": Level(_ATEN, "avx2", "AVX2", _AVX2),
        "avx512": Level(_ATEN, "avx512", "AVX512", _AVX512),
    },
    "onednn_isa": {
        "sse41": Level(_ONEDNN, "SSE41", "Intel SSE4.1", ("sse4_1",)),
        "avx": Level(_ONEDNN, "AVX", "Intel AVX", ("avx",)),
        "avx2": Level(_ONEDNN, "AVX2", "Intel AVX2", _AVX2),
        "avx512": Level(_ONEDNN, "AVX512_CORE", "Intel AVX-512", _AVX512),
    },
    "mkl": {
        "compatible": Level(_MKL, "COMPATIBLE", "3", ()),
        "avx2": Level(_MKL, "AVX2", "10", _AVX2),
        "avx512": Level(_MKL, "AVX512", "12", _AVX512),
    },
}
#: `isa=`: one level of all three.
TIERS: Final[Mapping[str, Mapping[str, str]]] = {
    "default": {"aten": "default", "onednn_isa": "sse41", "mkl": "compatible"},
    "avx2": {"aten": "avx2", "onednn_isa": "avx2", "mkl": "avx2"},
    "avx512": {"aten": "avx512", "onednn_isa": "avx512", "mkl": "avx512"},
}


def requested(options: Options) -> dict[str, Level]:
    """Returns the level that the options request of each library; nothing for a library that may choose."""
    names = TIERS[options["isa"]] if "isa" in options else options
    return {library: levels[names[library]] for library, levels in LIBRARIES.items() if library in names}


def asked(options: Options) -> str:
    """Returns the options that request levels, as they were written: `isa=avx2`, `aten=avx2,mkl=compatible`."""
    return ",".join(f"{name}={options[name]}" for name in ("isa", *LIBRARIES) if name in options)
