"""Summaries of reduced findings, as a campaign writes them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from mindgap.findings.causes import ReducedGroup
from mindgap.findings.reduction.files import Summary
from mindgap.findings.reduction.stage import Stage
from mindgap.platforms.name import parse


def summary(
    platform: str, verdict: str, *operators: str, dtypes: tuple[str, ...] = ("float32",), signature: str = "",
    status: str = "", stage: Stage = "unknown", blame: str = "platform", culprit: str = "", special: bool = False,
    script: str = "", verified: bool = True, origin: str = "",
) -> Summary:  # fmt: skip
    """A summary; `aten.NAME.default` may be written as NAME."""
    overloads = tuple(op if op.count(".") == 2 else f"aten.{op}.default" for op in operators)
    status = status or ("compile_error" if verdict == "failed" else "ok")
    title = f"{platform}: {'+'.join(overloads)} of {', '.join(dtypes)}: {verdict}"
    script = script or f"{platform.replace('/', '-')}-{'-'.join(overloads)}-{verdict}.py"
    return Summary(
        title, parse(platform), verdict, blame, overloads, dtypes, signature, 9, 5, 1.0, True, True, verified, script,
        stage, (), status, culprit, origin, special,
    )  # fmt: skip


def group(made: Summary, rows: int = 1, *cases: str) -> ReducedGroup:
    return ReducedGroup(made, rows, cases or ("v000001",))


def real_findings() -> list[tuple[str, Summary]]:
    """The name of the root cause and the finding, for each finding in real_findings.toml."""
    text = Path(__file__).with_name("real_findings.toml").read_text(encoding="utf-8")
    causes: list[dict[str, Any]] = tomllib.loads(text)["cause"]
    return [(cause["name"], _read(**finding)) for cause in causes for finding in cause["findings"]]


def _read(platform: str, verdict: str, operators: list[str], **more: Any) -> Summary:
    if "dtypes" in more:
        more["dtypes"] = tuple(more["dtypes"])
    return summary(platform, verdict, *operators, **more)
