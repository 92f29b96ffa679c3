"""Thousands of models as graphs, captured once and kept.

Comes in: sources, and what each may cost. Goes out: a catalogue, which is a store whose graphs are deduplicated by
structure, with a row for every program that was tried: captured, a duplicate, left out, or failed with its reason.
Each model is built in a worker process: one that hangs, crashes, prints or takes all memory costs its own row.
Knows no platform.
"""

from mindgap.catalogue.build import BuildProgress, ModelLimits, build
from mindgap.catalogue.catalogue import Catalogue, Entry
from mindgap.catalogue.integrity import DamagedGraph, damaged_graphs
from mindgap.catalogue.passes import PASSES, Pass
from mindgap.catalogue.stats import CatalogueStats, stats_of

__all__ = [
    "PASSES",
    "BuildProgress",
    "Catalogue",
    "CatalogueStats",
    "DamagedGraph",
    "Entry",
    "ModelLimits",
    "Pass",
    "build",
    "damaged_graphs",
    "stats_of",
]
