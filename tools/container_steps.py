"""Runs the steps of the Containerfile in a root directory, where no container engine is. Needs root's rights.

    debootstrap --variant=minbase bookworm ROOT
    python tools/container_steps.py ROOT [--build-arg TORCH_INDEX=URL] [--from STEP]

Variables of pip and of proxies are handed on. Prints each step; its status is that of the first step that fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[1]


def copy(words: list[str], root: Path) -> None:
    """Copies files and the contents of folders, as `COPY` does."""
    *sources, target = words
    for name in sources:
        source, place = HERE / name, root / target.lstrip("/")
        if source.is_dir():
            shutil.copytree(source, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--build-arg", action="append", default=[])
    parser.add_argument("--from", dest="begin", type=int, default=1)
    given = parser.parse_args()
    handed = {name: value for name, value in os.environ.items() if re.search("(?i)^pip_|proxy$|cert|ssl", name)}
    variables = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "DEBIAN_FRONTEND": "noninteractive",
        **handed,
    }
    lines = [line for line in (HERE / "Containerfile").read_text(encoding="utf-8").splitlines() if line[:1].isupper()]
    for number, line in enumerate(lines, 1):
        kind, _, rest = line.partition(" ")
        print(f"{number}. {line}", flush=True)
        if kind in ("ARG", "ENV"):
            pairs = [pair.partition("=") for pair in rest.split()]
            variables |= {name: value.replace("$PATH", variables["PATH"]) for name, _, value in pairs}
            variables |= dict(pair.split("=", 1) for pair in given.build_arg) if kind == "ARG" else {}
        elif number < given.begin:
            continue
        elif kind == "COPY":
            copy(rest.split(), given.root)
        elif kind == "RUN":
            command = ["chroot", str(given.root), "/bin/sh", "-c", rest]
            if status := subprocess.run(command, env=variables, check=False).returncode:
                return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
