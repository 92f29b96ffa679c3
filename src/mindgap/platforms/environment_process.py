"""Opens backends by their place (`package.module:attribute`) in a process of another environment.

That process has no registry of platforms. Run as a module, it takes places, probes the backend at each, and prints the
answers as one JSON object by place.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from mindgap.platforms.environments.emulation import EMULATED, emulated_processor
from mindgap.platforms.environments.host_worker import own_version
from mindgap.platforms.protocol import EXECUTION, Availability, Backend, PlatformError


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a process in another environment."""
    parser.add_argument("--environment", help="the name of the environment that this process runs in")
    parser.add_argument("--layered", action="store_true", help="what it lacks comes from mindgap's environment")


def backend_at(place: str) -> Backend:
    """Imports a backend by `package.module:attribute`. Raises `PlatformError`."""
    module, _, attribute = place.partition(":")
    try:
        part_found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            part_found = getattr(part_found, part)
    except (ImportError, AttributeError) as error:
        raise PlatformError(f"{place}: {error}; is its module on PYTHONPATH?") from error
    return part_found


def probed(backend: Backend, environment: str, layered: bool) -> Availability:
    """What the backend's probe finds. A layered environment must itself have a package that the backend names: on
    mindgap's packages alone it would be mindgap's own platform under another name, unless it runs on another
    processor, which is emulated."""
    availability = backend.probe()
    if emulated_processor():
        return dataclasses.replace(availability, hardware=emulated_processor(), execution=EMULATED)
    if not availability.available or not layered or any(map(_is_own, availability.versions)):
        return availability
    names = ", ".join(availability.versions)
    return dataclasses.replace(
        availability,
        available=False,
        reason=f"environment {environment} has not installed {names}: it would run on mindgap's own packages",
    )


def described(host: str = "") -> dict[str, Any]:
    """What a platform's description has of the environment, besides the platform's own facts; of a `host`, the
    version of its mindgap, its system and its C library too, whose functions platforms call."""
    execution = {EXECUTION: EMULATED} if emulated_processor() else {}
    python = {"python": platform.python_version()}
    if not host:
        return {"environment": python, **execution}
    libc = " ".join(platform.libc_ver()).strip()
    return {
        "host": {
            **python, "mindgap": own_version(), "machine": platform.machine(), "system": platform.system(),
            "libc": libc,
        },
        **execution,
    }  # fmt: skip


def _is_own(distribution: str) -> bool:
    try:
        place = importlib.metadata.distribution(distribution).locate_file("")
    except importlib.metadata.PackageNotFoundError:
        return False
    return Path(str(place)).is_relative_to(sys.prefix)


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("places", nargs="+")
    add_options(parser)
    arguments = parser.parse_args()
    # What a library prints, from Python or from C, is not the answer.
    answer = os.dup(1)
    os.dup2(2, 1)
    answers = {place: dataclasses.asdict(_probed(place, arguments)) for place in arguments.places}
    os.write(answer, json.dumps(answers).encode() + b"\n")
    # No teardown: a thread of a library may go on for ever.
    sys.stderr.flush()
    os._exit(0)


def _probed(place: str, arguments: argparse.Namespace) -> Availability:
    try:
        return probed(backend_at(place), arguments.environment, arguments.layered)
    except (Exception, SystemExit) as error:  # what a platform does wrong is data
        return Availability(False, f"its probe failed: {type(error).__name__}: {error}")


if __name__ == "__main__":
    _main()
