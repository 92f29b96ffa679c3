"""Architectures of the deviations study, with weights and inputs that are bit for bit the same on every machine.

`variants` builds a model. `training` made the files in `trained/` and needs scikit-learn; nothing else does.
"""
