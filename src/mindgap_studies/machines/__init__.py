"""Observes what one machine computes under all of its settings, and merges the observations of machines.

Comes in: nothing but the machine at hand; the models and their weights are here. Goes out: a file of a few hundred
kilobytes with digests and a description of the machine (`collecting`), and the observations of many such
files as one set of platforms (`merging`). Must not know: studies, verdicts.

- `models/`: architectures, and weights that are bit for bit the same on every machine.
- `subjects/`: the graphs that are run.
- `settings`: the platforms that one machine gives.
- `observations`, `collected_file`, `merging`: what was observed, as data. They import no framework.
"""
