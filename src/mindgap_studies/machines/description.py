"""Describes the machine at hand, without names of hosts, users or paths."""

from __future__ import annotations

import datetime
import os
import platform
import re
from importlib.metadata import version

from mindgap.platforms.pytorch.device.availability import package_version, processor
from mindgap.run.system import memory_bytes
from mindgap_studies.machines.observations import Machine


def this_machine() -> Machine:
    """Returns the processor, its flags, cores and memory, and the versions of what computes."""
    found = processor()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    words = re.sub(r"\([RrTtMm]+\)", "", found.name.lower())
    return Machine(
        # As a file may be called: `amd-epyc-family-25-model-17-stepping-1-x86-64-2-cores`.
        name=re.sub(r"[^a-z0-9]+", "-", f"{words} {cores} cores").strip("-"),
        processor=found.name,
        vendor=found.vendor,
        flags=tuple(sorted(found.flags)),
        cores=cores,
        memory_gib=round(memory_bytes() / (1 << 30)),
        versions={
            "python": platform.python_version(),
            "torch": version("torch"),
            "numpy": version("numpy"),
            "mindgap": package_version("mindgap") or "",
        },
        collected=datetime.datetime.now(datetime.UTC).date().isoformat(),
    )
