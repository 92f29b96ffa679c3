"""Compiles many graphs with AOTInductor into one shared library.

Comes in: FX modules. Goes out: one function per module. Each graph's results equal those of a separate library.
"""
