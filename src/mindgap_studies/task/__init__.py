"""Measures what a model's task loses on a platform: error, flipped labels, calibration, boxes, perplexity.

Comes in: predictions and truths of a store (`mindgap_studies.results.predictions`). Goes out: tables. Runs nothing.
"""
