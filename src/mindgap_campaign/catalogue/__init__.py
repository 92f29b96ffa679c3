"""Captures thousands of models once and keeps their graphs in a catalogue.

Comes in: sources, and limits of time, memory and parameters per model. Goes out: a catalogue, a store with one graph
per structure and a row for every program that was tried (captured, duplicate, left out, or failed with its reason).
Each model is built in a worker process. A model that hangs, crashes, prints or takes all memory affects its own row
only. Must not know: platforms, verdicts.
"""

from mindgap.results.catalogue import PASSES, Catalogue, Entry, Pass
from mindgap_campaign.catalogue.builder import BuildProgress, CapturePlace, build
from mindgap_campaign.catalogue.capture_client import ModelLimits
from mindgap_campaign.catalogue.integrity import DamagedGraph, damaged_graphs
from mindgap_campaign.catalogue.stats import CatalogueStats, stats_of

__all__ = [
    "PASSES",
    "BuildProgress",
    "CapturePlace",
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
