"""Reads `campaign.toml`, the plan of a campaign.

Input: TOML text. Output: a validated `Plan`, or an error that names file, line and key. Runs nothing.
"""

from mindgap.campaign.plan.model import (
    CHANGEABLE,
    Limits,
    Plan,
    PlanError,
    Size,
    Variants,
    changed,
    parse_plan,
    read_plan,
)

__all__ = ["CHANGEABLE", "Limits", "Plan", "PlanError", "Size", "Variants", "changed", "parse_plan", "read_plan"]
