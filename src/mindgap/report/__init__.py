"""Writes reports for people and for CI systems.

Comes in: a `Report`, or causes with their scripts. Goes out: self-contained HTML pages, JUnit XML, SARIF.
Knows nothing of how anything was run: `Report.totals` has every total.
Each name is loaded at its first use: a command that prints a table imports no page, and no PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import MindgapError

if TYPE_CHECKING:
    from mindgap.report.cause_page import cause_pages
    from mindgap.report.junit import junit_xml
    from mindgap.report.page import html_page
    from mindgap.report.sarif import sarif_of_causes, sarif_of_report

_HOMES: Final = {
    "cause_pages": "cause_page",
    "html_page": "page",
    "junit_xml": "junit",
    "sarif_of_causes": "sarif",
    "sarif_of_report": "sarif",
}

__all__ = [
    "cause_pages",
    "html_page",
    "junit_xml",
    "sarif_of_causes",
    "sarif_of_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mindgap.report' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"mindgap.report.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("altair", "vl_convert"):
            raise
        raise MindgapError(f"a page needs {error.name}, which is not installed: pip install 'mindgap[html]'") from None
