"""Runs whole jobs: compares models, versions and single values.

Comes in: programs, names of platforms. Goes out: a `Report` or a store. `diff` holds comparisons, upgrades and traces.
Campaigns, surveys and metamorphic runs are other packages. Must not know pages.
"""
