"""The name of a platform, parsed once where a user's text comes in: nothing behind that takes its text apart again."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from mindgap.platforms.protocol import Options, PlatformError

#: The option that names an environment, and the one that names a host.
ENVIRONMENT: Final = "env"
HOST: Final = "host"
_IMPORT_PATH: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class PlatformName(str):
    """The name of a platform: `DEVICE/MODE[@key=value,…]`, or where its backend is: `package.module:attribute[@…]`.

    It is a text in the canonical form: the options of a registered platform are sorted by name. So it compares,
    hashes, sorts, prints and is stored as that text. `parse` makes one of a user's text, `recorded` one of a stored
    file's.
    """

    __slots__ = ("_device_mode", "_options")
    _device_mode: str
    _options: Options

    def __new__(cls, device_mode: str, options: Mapping[str, str] | None = None) -> PlatformName:
        given = dict(options or {})
        if "/" in device_mode:
            given = dict(sorted(given.items()))
        listed = ",".join(f"{key}={value}" for key, value in given.items())
        return cls._of(f"{device_mode}@{listed}" if listed else device_mode, device_mode, given)

    @classmethod
    def _of(cls, text: str, device_mode: str, options: Mapping[str, str]) -> PlatformName:
        name = super().__new__(cls, text)
        name._device_mode, name._options = device_mode, MappingProxyType(dict(options))
        return name

    def __reduce__(self) -> tuple[Callable[[str], PlatformName], tuple[str]]:
        return recorded, (str(self),)

    @property
    def device_mode(self) -> str:
        """The name without options: `DEVICE/MODE`, or `package.module:attribute`."""
        return self._device_mode

    @property
    def options(self) -> Options:
        """All options, `env` and `host` among them."""
        return self._options

    @property
    def device(self) -> str:
        """What stands before the slash: `cpu`, `onnxruntime`. Of an import path, all of it."""
        return self._device_mode.partition("/")[0]

    @property
    def mode(self) -> str:
        """What stands behind the slash: `eager`. Of an import path, nothing."""
        return self._device_mode.partition("/")[2]

    @property
    def is_import_path(self) -> bool:
        """Whether it has the place of its backend (`package.module:attribute`), and is not registered as
        DEVICE/MODE."""
        return "/" not in self._device_mode

    @property
    def environment(self) -> str:
        """The name of the environment that it runs in, empty for mindgap's own."""
        return self._options.get(ENVIRONMENT, "")

    @property
    def host(self) -> str:
        """The name of the host that it runs on, empty for this machine."""
        return self._options.get(HOST, "")

    @property
    def is_here(self) -> bool:
        """Whether it names neither an environment nor a host."""
        return not self.environment and not self.host

    @property
    def backend_options(self) -> Options:
        """The options that the backend takes."""
        return {key: value for key, value in self._options.items() if key not in (ENVIRONMENT, HOST)}

    def with_options(self, **options: str) -> PlatformName:
        """Returns the name with these options added, or in place of them."""
        return PlatformName(self._device_mode, {**self._options, **options})

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        """Tells pydantic, which reads JSON reports and plans, how one is made of a text."""
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(recorded, core_schema.str_schema())


#: The default reference.
CPU_EAGER: Final = PlatformName("cpu/eager")


@lru_cache(maxsize=4096)
def parse(text: str) -> PlatformName:
    """Parses a platform's name, without a lookup. Raises `PlatformError` if it is malformed."""
    device_mode, at, listed = text.strip().partition("@")
    device, slash, mode = device_mode.partition("/")
    registered = device and slash and mode and "/" not in mode and not any(c.isspace() for c in device_mode)
    if not registered and _IMPORT_PATH.fullmatch(device_mode) is None:
        form = "DEVICE/MODE[@key=value,…], as in cpu/eager@isa=avx2 (`mindgap platforms` lists them)"
        raise PlatformError(f"platform {text!r} is not {form}")
    if at and not listed.strip():
        raise PlatformError(f"platform {text!r}: no option follows the @")
    options: dict[str, str] = {}
    for item in listed.split(",") if listed else ():
        key, equals, value = (part.strip() for part in item.partition("="))
        if not (key and equals and value):
            raise PlatformError(f"platform {text!r}: option {item.strip()!r} is not key=value")
        if key in options:
            raise PlatformError(f"platform {text!r}: option {key!r} is given twice")
        options[key] = value
    return PlatformName(device_mode, options)


@lru_cache(maxsize=4096)
def recorded(text: str) -> PlatformName:
    """Reads a name from a store, a report or another file of mindgap's: any text, which stays as it is."""
    device_mode, _, listed = text.partition("@")
    pairs = (item.partition("=") for item in listed.split(",") if item)
    return PlatformName._of(text, device_mode, {key.strip(): value.strip() for key, _, value in pairs})  # pyright: ignore[reportPrivateUsage] # the other constructor
