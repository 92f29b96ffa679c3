"""Describes a published platform as the paper's tables do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mindgap_studies.deviations.published.parquet import BadData
from mindgap_studies.deviations.published.records import Output

#: Generation of a processor by vendor, family and model of its CPUID, in the printed order of one vendor.
#: Source: https://en.wikichip.org/wiki/intel/cpuid and /amd/cpuid.
_CPUS: Final = {
    ("AuthenticAMD", 25, 1): "Milan",
    ("AuthenticAMD", 23, 49): "Rome",
    ("GenuineIntel", 6, 45): "Sandy Br.",
    ("GenuineIntel", 6, 62): "Ivy Br.",
    ("GenuineIntel", 6, 63): "Haswell",
    ("GenuineIntel", 6, 79): "Broadwell",
    ("GenuineIntel", 6, 85): "Skylake",
    ("GenuineIntel", 6, 158): "Coffee Lake",
    ("GenuineIntel", 6, 106): "Ice Lake",
}
#: Generation of a GPU by its short name, in the printed order.
_GPUS: Final = {
    "K80": "Kepler",
    "GTX 970": "Maxwell",
    "GTX 980": "Maxwell",
    "M60": "Maxwell",
    "P100": "Pascal",
    "V100": "Volta",
    "GTX 1650": "Turing",
    "RTX 2070": "Turing",
    "T4": "Turing",
    "A100": "Ampere",
}
_VENDORS: Final = {"AuthenticAMD": "AMD", "GenuineIntel": "Intel"}
_CLOUDS: Final = {"gcloud": "GCP", "aws": "AWS", "local": "local"}
#: Generations by year, for Figure 1.
BY_YEAR: Final = (
    *("Rome", "Milan", "Sandy Br.", "Ivy Br.", "Haswell", "Broadwell", "Skylake", "Coffee Lake", "Ice Lake"),
    *("Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere"),
)  # fmt: skip
#: CPU features that TensorFlow 2.5 asks for (tensorflow/core/platform/cpu_info.cc) and that Linux has under the same
#: name, without those that the authors left out (adx, f16c, rdrand, rdseed, smap), and `misalignsse`, which they added.
#: They and the number of cores make the CPU class (CC) of Table SUP-1.
_CC_FLAGS: Final = frozenset(
    {
        "aes", "avx", "avx2", "avx512f", "avx512cd", "avx512pf", "avx512er", "avx512vl", "avx512bw", "avx512dq",
        "avx512vbmi", "avx512ifma", "avx512_4vnniw", "avx512_4fmaps", "bmi1", "bmi2", "cmov", "fma", "mmx",
        "pclmulqdq", "popcnt", "sse", "sse2", "ssse3", "sse4_1", "sse4_2", "hypervisor", "misalignsse",
    }
)  # fmt: skip
#: Least numbers of cores that the authors tell apart in CPU classes.
_CC_CORES: Final = (0, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class PublishedPlatform:
    """A row of Table SUP-1 or SUP-2. `cores` and `memory` (GiB, as printed) are None for a GPU.

    `instances`: cloud instances of this description, more than one where they also gave the same outputs. `cpu_class`:
    what the authors make a CPU class of; None for a GPU. `flags`: of the (host's) CPU, of the first instance.
    """

    vendor: str
    generation: str
    device: str
    cloud: str
    cores: int | None
    memory: str | None
    cpu_class: tuple[frozenset[str], int] | None
    flags: frozenset[str]
    instances: tuple[str, ...]

    @property
    def is_gpu(self) -> bool:
        return self.cores is None

    @property
    def name(self) -> str:
        size = "" if self.is_gpu else f", {self.cores} cores, {self.memory} GiB"
        return f"{self.vendor} {self.generation} {self.device}{size}, {self.cloud}"

    @property
    def order(self) -> tuple[str, int, int, str, str]:
        """Returns the key by which rows stand in the printed order: instances by name within a generation."""
        generations = list(dict.fromkeys((*_CPUS.values(), *_GPUS.values())))
        return (self.vendor, self.cores or 0, generations.index(self.generation), self.instances[0], self.device)


def platform_of(path: Path, output: Output) -> PublishedPlatform:
    cloud, name, brand, gpu = output.instance
    if gpu is not None:
        device = _short(gpu)
        if device not in _GPUS:
            raise BadData(path, f"the generation of {gpu} is not known", column="gpu_name", row=output.at)
        return PublishedPlatform(
            "NVidia", _GPUS[device], device, _CLOUDS.get(cloud, cloud), None, None, None, output.cpu_flags, (name,)
        )
    if output.cpu not in _CPUS:
        raise BadData(path, f"the generation of {brand} {output.cpu} is not known", column="cpu_model", row=output.at)
    if output.memory_total is None:
        raise BadData(path, "it has no value, and needs one", column="memory_total", row=output.at)
    cores = max(split for split in _CC_CORES if split <= output.cpu_count)
    return PublishedPlatform(
        vendor=_VENDORS[output.cpu[0]],
        generation=_CPUS[output.cpu],
        device=_short(brand),
        cloud=_CLOUDS.get(cloud, cloud),
        cores=output.cpu_count,
        memory=f"{output.memory_total / 2**30:.1f}",
        cpu_class=(output.cpu_flags & _CC_FLAGS, cores),
        flags=output.cpu_flags,
        instances=(name,),
    )


def _short(name: str) -> str:
    """Returns a device's name as the tables print it: `Intel(R) Xeon(R) CPU E5-2676 v3 @ 2.40GHz` is `E5-2676`."""
    words = name.split("@")[0].split()
    dropped = {"Intel(R)", "Core(TM)", "AMD", "EPYC", "CPU", "Platinum", "NVIDIA", "GeForce", "Tesla"}
    kept = [word for word in words if word not in dropped and not re.fullmatch(r"v\d", word)]
    if len(kept) > 1 and kept[0] == "Xeon(R)":
        kept = kept[1:]
    text = " ".join(kept).replace("(R)", "")
    return text.split("-")[0] if name.endswith("GB") else text
