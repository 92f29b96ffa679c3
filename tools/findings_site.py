"""A hook of mkdocs: makes the pages of docs/findings, which are not committed, and the index with its filters."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
FINDINGS = ROOT / "docs" / "findings"
sys.path.insert(0, str(Path(__file__).parent / "findings"))
from pages import made_files  # noqa: E402

#: Where the index goes in the page of the findings.
MARK = "<!-- filters -->"
SCRIPT = Path(__file__).with_name("findings_index.js")
FILTERS = '<div id="findings-index" data-from="findings.json"></div>\n<script src="index.js" defer></script>\n'
#: How much a page counts in the search; the page of one cause a fifth. The start page has the questions as headings.
BOOSTS = {"index.md": 4.0, "findings/README.md": 2.0}
_SCRIPT_LINK = re.compile(r"\]\(((?:[\w./-]*/)?[\w-]+/[\w-]+)\.py\)")
_FOLDER_LINK = re.compile(r"\]\(((?:[\w./-]*/)?[\w-]+/)\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages, the data of the index and its program."""
    for path, content in made_files(FINDINGS).items():
        files.append(File.generated(config, f"findings/{path}", content=content))
    files.append(File.generated(config, "findings/index.js", content=SCRIPT.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Returns the page's text with the index; links to the script of a cause, or to a folder, become links to pages."""
    source = page.file.src_uri
    if source == "index.md" or (source.startswith("findings/") and source != "findings/README.md"):
        page.meta["hide"] = ["navigation"]  # such pages are in no section, and get the room
    page.meta["search"] = {"boost": BOOSTS.get(source, 0.2 if source.startswith("findings/") else 1.0)}
    if source == "findings/README.md":
        markdown = markdown.replace(MARK, FILTERS)
    elif source.startswith("findings/"):
        return markdown

    def to_page(link: re.Match[str], name: str) -> str:
        path = Path("/", source).parent / name
        known = files.get_file_from_path(str(path.resolve()).lstrip("/"))
        return f"]({name})" if known is not None else link[0]

    markdown = _SCRIPT_LINK.sub(lambda link: to_page(link, f"{link[1]}.md"), markdown)
    return _FOLDER_LINK.sub(lambda link: to_page(link, f"{link[1]}index.md"), markdown)
