"""Workers that find the toys, and campaigns run in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


@pytest.fixture(autouse=True)
def toys_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))


@pytest.fixture
def campaign(tmp_path: Path) -> Callable[..., Any]:
    """`campaign(count, platforms, out=…, shard=…, **lines of the plan)` begins one and gives where it stands."""
    from small_source import Small, plan_text

    from mindgap_campaign.campaign.cases.case import Shard
    from mindgap_campaign.campaign.plan import parse_plan
    from mindgap_campaign.campaign.session import RunOptions, begin

    def run(count: int, *platforms: str, out: str = "out", shard: str = "0/1", source: Any = None, **more: Any) -> Any:
        options = more.pop("options", None) or RunOptions(jobs=2)
        named = {name: inside for name, _, inside in (platform.partition(" ") for platform in platforms)}
        more.setdefault("top", 'reference = "toys:EXACT"')
        text = plan_text(count, named, **more)
        plan = parse_plan(text, "campaign.toml")
        return begin(plan, text, tmp_path / out, source or Small(), shard=Shard.parse(shard), options=options)

    return run
