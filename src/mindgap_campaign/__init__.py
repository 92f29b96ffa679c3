"""Runs thousands of models and variants on many platforms, and tests mindgap itself.

Comes in: sources, a plan. Goes out: a catalogue of graphs, variants, a store of rows, reduced causes. Imports `mindgap`
and `mindgap_zoo` alone; a survey of operators is an extension (`mindgap.run.extensions`).
"""
