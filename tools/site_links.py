"""A hook of mkdocs: links of a page to files outside `docs` become links into the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]*)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Returns the page's text. Raises `ValueError` for a link to a file that the repository does not have."""
    source = ROOT / "docs" / page.file.src_uri

    def changed(link: re.Match[str]) -> str:
        path = (source.parent / link[1]).resolve()
        if (ROOT / "docs") in (path, *path.parents):
            return link[0]
        if not path.exists():
            raise ValueError(f"docs/{page.file.src_uri}: there is no {link[1]}")
        return f"]({config['repo_url'].rstrip('/')}/blob/main/{path.relative_to(ROOT)}{link[2] or ''})"

    return LINK.sub(changed, markdown)
