"""Writes the causes of reduced findings: JSON, pages, SARIF, and their state in a ledger of known issues."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from mindgap.cli.outputs import check_directory, check_files, make_directory, put_known, write_file
from mindgap.findings.known import load_ledger, review_causes
from mindgap.graph import MindgapError
from mindgap.platforms.name import PlatformName

if TYPE_CHECKING:
    from mindgap.findings.causes import Cause
    from mindgap.findings.causes.ledger import Ledger

LedgerFile = Annotated[
    Path | None, typer.Option("--ledger", metavar="FILE", help="Known issues in TOML: docs/reduction.md.")
]
UpdateLedger = Annotated[bool, typer.Option("--update-ledger", help="Write what is new and gone to the ledger.")]
SarifFile = Annotated[
    Path | None, typer.Option("--sarif", metavar="FILE", help="Also write the causes as SARIF 2.1.0.")
]


@dataclass(frozen=True, slots=True)
class CauseOutputs:
    """Where causes go. `ledger`: None where none was given. `update`: its file, where that is to be written."""

    out: Path
    ledger: Ledger | None
    update: Path | None
    sarif: Path | None

    @classmethod
    def checked(cls, out: Path, ledger: Path | None, update: bool, sarif: Path | None) -> Self:
        """Reads the ledger and checks the paths, before a run. Raises `MindgapError`."""
        if update and ledger is None:
            raise MindgapError("--update-ledger needs --ledger FILE, the file to write")
        check_directory("--out", out)
        check_files(("--sarif", sarif), ("--ledger", ledger if update else None))
        known = None if ledger is None else load_ledger(ledger, create=update)
        return cls(out, known, ledger if update else None, sarif)

    def write(self, causes: Sequence[Cause], platforms: Iterable[PlatformName]) -> tuple[Cause, ...]:
        """Writes causes.json, index.html and a page for each cause next to their scripts; returns causes with states.

        `platforms`: those of which all causes are there. Raises `MindgapError`.
        """
        from mindgap import __version__
        from mindgap.findings.causes import FILE_NAME, causes_text
        from mindgap.report import cause_pages, sarif_of_causes

        written = tuple(causes)
        if self.ledger is not None:
            review, text = review_causes(self.ledger, causes, platforms)
            put_known(review.lines, text, self.update)
            written = review.causes
        make_directory(self.out)
        write_file(self.out / FILE_NAME, causes_text(written))
        for name, page in cause_pages(written, self.out):
            make_directory((self.out / name).parent)
            write_file(self.out / name, page)
        if self.sarif is not None:
            write_file(self.sarif, sarif_of_causes(written, __version__))
        return written
