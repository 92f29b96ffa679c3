"""A hook of mkdocs: links of a page to files outside `docs` become links into the repository.

As long as no account is named that publishes it (`tools/release.py --account`), no page links to an address that is
not there: such links become their text, and the site has no link to the repository.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(((?:\.\./)+[^)#\s]*)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Takes the placeholder of the repository's address out of the site."""
    if "/OWNER/" in (config["repo_url"] or ""):
        config["repo_url"] = config["repo_name"] = None
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Returns the page's text. Raises `ValueError` for a link to a file that the repository does not have."""
    source = ROOT / "docs" / page.file.src_uri

    def changed(link: re.Match[str]) -> str:
        path = (source.parent / link[2]).resolve()
        if (ROOT / "docs") in (path, *path.parents):
            return link[0]
        if not path.exists():
            raise ValueError(f"docs/{page.file.src_uri}: there is no {link[2]}")
        if not config["repo_url"]:
            return link[1]
        return f"[{link[1]}]({config['repo_url'].rstrip('/')}/blob/main/{path.relative_to(ROOT)}{link[3] or ''})"

    return LINK.sub(changed, markdown)
