"""Constructs models, and knows the recipes of their weights.

Comes in: a function that makes a module. Goes out: the module, and a registry that maps the bytes of each tensor back
to its recipe. Must not know: any model library.
"""
