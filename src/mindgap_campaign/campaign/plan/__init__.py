"""Reads `campaign.toml`, the plan of a campaign.

Input: TOML text. Output: a validated `Plan`, or an error that names file, line and key. Runs nothing.
"""

from mindgap_campaign.campaign.plan.model import (
    BLOCK,
    CHANGEABLE,
    Plan,
    PlanError,
    PlatformPlan,
    Size,
    VariantLimits,
    Variants,
    changed,
    parse_plan,
    platform_plans,
    read_plan,
)

__all__ = [
    "BLOCK",
    "CHANGEABLE",
    "Plan",
    "PlanError",
    "PlatformPlan",
    "Size",
    "VariantLimits",
    "Variants",
    "changed",
    "parse_plan",
    "platform_plans",
    "read_plan",
]
