"""The account that publishes a release: one command writes it, and until then no page links to a false address."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_command_writes_the_account_into_every_file(tmp_path: Path) -> None:
    release = tool("release")
    names = release.unset()
    assert {"pyproject.toml", "mkdocs.yml", "CITATION.cff", ".pre-commit-hooks.yaml"} <= set(names)
    assert any("--account NAME" in line and "mkdocs.yml" in line for line in release.to_do("1.0")), "it is printed"
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    assert release.write_account("somebody", tmp_path) == names
    assert release.unset(tmp_path) == []
    assert "repo_url: https://github.com/somebody/mindgap\n" in (tmp_path / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://github.com/OWNER/mindgap", "see CONTRIBUTING.md and [the page](install.md)"),
        (
            "https://github.com/somebody/mindgap",
            "see [CONTRIBUTING.md](https://github.com/somebody/mindgap/blob/main/CONTRIBUTING.md) and "
            "[the page](install.md)",
        ),
    ],
)
def test_a_page_links_to_the_repository_once_its_account_is_known(url: str, expected: str) -> None:
    links = tool("site_links")
    config = links.on_config({"repo_url": url, "repo_name": "GitHub"})
    page = SimpleNamespace(file=SimpleNamespace(src_uri="index.md"))
    text = "see [CONTRIBUTING.md](../CONTRIBUTING.md) and [the page](install.md)"
    assert links.on_page_markdown(text, page, config, None) == expected
