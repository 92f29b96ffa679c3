"""Compiles a graph as a whole, or exports it.

Comes in: a `Graph`. Goes out: an executable around the compiled program, or an exported program. What fails to compile
is a typed refusal or failure.
"""
