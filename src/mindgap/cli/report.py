"""Implements `mindgap report`, which makes a page from a JSON report or a run in a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.outputs import check_files, write_file
from mindgap.cli.streams import result_stream
from mindgap.graph import MindgapError
from mindgap.workflows.diff import Report


def report(
    source: Annotated[
        str, typer.Argument(metavar="REPORT.json|STORE", help="What `diff --json` printed, or a store (or its URL).")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.html", help="Where the page goes.")],
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Of a store: which run (default: the latest).")] = None,
) -> None:
    """Make the self-contained HTML page of a report, or of a run in a store.

    Example: mindgap report out/demo/models.json -o page.html
    """
    from mindgap.report import html_page

    check_files(("--output", output))
    shown = _stored(source, run) if "://" in source or Path(source).is_dir() else _decoded(Path(source))
    with result_stream() as out:
        write_file(output, html_page(shown))
        print(output, file=out)


def _stored(source: str, run: str | None) -> Report:
    from mindgap.results.from_store import report_of
    from mindgap.results.store import Store

    return report_of(Store(source, create=False), run)


def _decoded(source: Path) -> Report:
    from mindgap.results.report_json import decode_report

    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MindgapError(f"{source} cannot be read: {getattr(error, 'strerror', error)}") from None
    return decode_report(text, str(source))
