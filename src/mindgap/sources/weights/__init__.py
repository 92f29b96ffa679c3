"""Constructs models and draws their weights from recipes.

Comes in: a function that makes a module. Goes out: the module with seeded weights, and a registry that maps the bytes
of each tensor back to its recipe. Must not know: any model library.
"""
