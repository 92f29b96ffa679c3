"""Keeps what was collected so far beside the file to be, one line of JSON per finished platform.

A collection that was interrupted goes on from there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mindgap_studies.machines.collected_file import CollectedFileError


class PartialFile:
    """`FILE.partial`: a header that says of what machine and subjects it is, then records."""

    def __init__(self, final: Path, header: Mapping[str, Any]) -> None:
        """Raises `CollectedFileError` if a partial file of another machine or other subjects is there."""
        self.path = final.with_name(f"{final.name}.partial")
        self._header = json.loads(json.dumps(header))
        self.records: list[dict[str, Any]] = []
        if self.path.exists():
            self._resume()

    def append(self, record: Mapping[str, Any]) -> None:
        """Adds a record; it survives any end of this process after the call."""
        new = not self.path.exists()
        with self.path.open("a", encoding="utf-8") as file:
            if new:
                file.write(json.dumps(self._header) + "\n")
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    def _resume(self) -> None:
        lines = list(_whole_lines(self.path))
        if not lines or lines[0] != self._header:
            raise CollectedFileError(
                f"{self.path} was begun on another machine, with other versions or with other models: remove it"
            )
        self.records = lines[1:]
        # A line that was cut short goes; the next record would otherwise be appended to it.
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        beside.write_text(text, encoding="utf-8")
        beside.replace(self.path)


def _whole_lines(path: Path) -> Iterator[Any]:
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return
