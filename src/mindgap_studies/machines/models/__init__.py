"""Architectures of the deviations study, with weights and inputs that are bit for bit the same on every machine.

`variants` builds a model. `tools/train_digits.py` made the files in `trained/`.
"""
