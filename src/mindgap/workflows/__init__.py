"""Runs whole jobs: compare models, run a campaign, survey support, test mindgap itself.

Comes in: programs or a plan, names of platforms. Goes out: a `Report` or a store. `diff` holds comparisons, upgrades,
traces and metamorphic runs. Must not know pages.
"""
