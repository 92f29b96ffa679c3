"""Defines the platform that a script runs, and the results of two versions of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mindgap.graph import Array
from mindgap.platforms.name import PlatformName
from mindgap.platforms.protocol import Packaged, Scripted
from mindgap.platforms.registry import registered
from mindgap.platforms.script_runner import ScriptRunner

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ScriptPlatform:
    """A platform: its `DEVICE/MODE`, its options, and the environment variables that its process must start with.

    `python`: the interpreter of the environment in which it runs, empty for mindgap's own. `versions`: of packages
    there; None for mindgap's own environment. `execution`: how it was run where no hardware of its kind ran it, in
    words (`cortex-a72, aarch64, emulated by qemu-aarch64 7.2.22`); empty for hardware. `made_by`: the command that
    makes its environment, where another machine has no such processor; else empty. `host`: the name of the host that it
    runs on, empty for this machine.
    """

    device_mode: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    python: str = ""
    versions: Mapping[str, str] | None = None
    execution: str = ""
    made_by: str = ""
    host: str = ""

    @staticmethod
    def of(
        name: PlatformName, environment: Mapping[str, str] | None = None, python: str = "",
        versions: Mapping[str, str] | None = None,
    ) -> ScriptPlatform:  # fmt: skip
        """Makes it of a platform's name. `env=` is no option of a script's platform."""
        return ScriptPlatform(name.device_mode, name.backend_options, environment or {}, python, versions)

    @property
    def name(self) -> str:
        """The platform's name: `cpu/eager@isa=avx2`."""
        return PlatformName(self.device_mode, self.options)


def runner_of(platform: ScriptPlatform) -> ScriptRunner | None:
    """Returns how a script runs the platform; None if its options have no short form, or its backend has none."""
    backend = registered(platform.device_mode)
    if not isinstance(backend, Scripted):
        return None
    try:
        return backend.script_runner(platform.options)
    except Exception as error:  # what a platform does wrong stops no comparison
        _log.warning("%s gets no short script: its backend failed: %s: %s", platform.name, type(error).__name__, error)
        return None


def packages_of(device_mode: str) -> tuple[str, ...]:
    """Returns the distributions that make a platform's results, the runtime's first, PyTorch with them."""
    backend = registered(device_mode)
    first, *others = [*(backend.packages if isinstance(backend, Packaged) else ()), "torch"]
    return tuple(dict.fromkeys((first, "torch", *others)))


@dataclass(frozen=True, slots=True)
class TwoResults:
    """What two versions of one platform make of one graph. A script that has them runs in the environment of either.

    `expected`: the outputs of the version that is taken to be right, `faulty`: those of the other one; both empty where
    the other one fails. `expected_by`, `faulty_by`: the two in words: `torch 2.13.0`. `right`: the platform of the
    first, where it needs the commands that make its environment.
    """

    expected_by: str
    faulty_by: str
    expected: Sequence[Array] = ()
    faulty: Sequence[Array] = ()
    right: ScriptPlatform | None = None
