"""The platforms that one machine gives: levels of vector instructions, libraries, threads and layouts of `cpu/eager`.

Each is a platform's name. One that this machine does not have (a level that its processor lacks) gives no result, with
the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

from mindgap.platforms.name import PlatformName
from mindgap.platforms.registry import canonical, find

#: `tiers`: Figure 2, one level of all libraries by number of threads. `levels`: ATen's and oneDNN's levels, one thread.
#: `float32`: every setting that computes float32 in float32. `reduced`: settings that do not.
Group = Literal["tiers", "levels", "float32", "reduced"]
TIERS: Final = ("default", "avx2", "avx512")


@dataclass(frozen=True, slots=True)
class Setting:
    """A platform and the groups that it belongs to."""

    platform: PlatformName
    groups: frozenset[Group]


def all_settings() -> tuple[Setting, ...]:
    """Returns all settings of this study, those first that tell most where time is short.

    The first is the reference for element-wise comparison.
    """
    found: dict[PlatformName, set[Group]] = {}

    def add(options: str, *groups: Group) -> None:
        found.setdefault(canonical(f"cpu/eager@{options}"), set()).update(groups)

    def add_levels(onednn: str) -> None:
        for aten in TIERS:
            add(f"aten={aten},onednn_isa={onednn},threads=1", "float32", "levels")
            add(f"aten={aten},mkl=compatible,onednn_isa={onednn},threads=1", "float32")

    add("threads=1", "float32", "levels")
    for tier in TIERS:
        add(f"isa={tier},threads=1", "float32", "tiers", "levels")
    for aten in TIERS:
        add(f"aten={aten},onednn=off,threads=1", "float32", "levels")
        add(f"aten={aten},mkl=compatible,onednn=off,threads=1", "float32")
    for onednn in ("sse41", "avx2"):
        add_levels(onednn)
    for threads, tier in product((4, 16, 2, 8), TIERS):
        add(f"isa={tier},threads={threads}", "float32", "tiers")
    for onednn in ("avx512", "avx"):
        add_levels(onednn)
    for aten in TIERS:
        add(f"aten={aten},layout=channels_last,onednn=off,threads=1", "float32")
        for onednn in ("sse41", "avx2", "avx512"):
            add(f"aten={aten},layout=channels_last,onednn_isa={onednn},threads=1", "float32")
    add("matmul=medium,threads=1", "reduced")
    add("autocast=bfloat16,threads=1", "reduced")
    return tuple(Setting(platform, frozenset(groups)) for platform, groups in found.items())


def quick_settings() -> tuple[Setting, ...]:
    """Returns a dozen settings: the tiers with one and four threads, oneDNN off, and reduced precision."""
    kept = [{"threads": "1"}, {"autocast": "bfloat16", "threads": "1"}]
    kept += [{"aten": tier, "onednn": "off", "threads": "1"} for tier in TIERS]
    kept += [{"isa": tier, "threads": str(count)} for tier, count in product(TIERS, (1, 4))]
    return tuple(each for each in all_settings() if each.platform.options in kept)


def given_settings(platforms: Sequence[str]) -> tuple[Setting, ...]:
    """Returns settings of any platforms, for all but the models that are kept apart for reduced precision.

    Raises `PlatformError` for a platform, option or value that is not known, and `EnvironmentProblem` for an
    environment that is not.
    """
    groups: frozenset[Group] = frozenset({"tiers", "levels", "float32"})
    names = [canonical(each) for each in platforms]
    for name in names:
        if not name.is_import_path:
            find(name)
    return tuple(Setting(name, groups) for name in dict.fromkeys(names))
