"""Joins the subcommands of `mindgap campaign`."""

from __future__ import annotations

from mindgap_campaign.cli.campaign import campaign
from mindgap_campaign.cli.campaign_reduce import reduce
from mindgap_campaign.cli.campaign_show import findings, show

for command in (findings, show):
    campaign.command()(command)
campaign.command("reduce")(reduce)

__all__ = ["campaign"]
