"""`mindgap report`: the page of a report that was kept as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.streams import result_stream
from mindgap.graph import MindgapError


def report(
    source: Annotated[Path, typer.Argument(metavar="REPORT.json", help="What `mindgap diff --json` printed.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.html", help="Where the page goes.")],
) -> None:
    """Make the self-contained HTML page of a report.

    Example: mindgap report out/demo.json -o page.html
    """
    from mindgap.diff.records import decode_report
    from mindgap.report import html_page

    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MindgapError(f"{source} cannot be read: {error}") from None
    found = decode_report(text, str(source))
    with result_stream() as out:
        write_file(output, html_page(found))
        print(output, file=out)


def write_file(path: Path, text: str | bytes) -> None:
    """Writes a result. Raises `MindgapError` where the place cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    except OSError as error:
        raise MindgapError(f"{path} cannot be written: {error.strerror}") from None
