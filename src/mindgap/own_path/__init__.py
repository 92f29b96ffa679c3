"""Runs a program the way that a platform's users go: their exporter, the runtime's own front end, the same arguments.

Comes in: a source, the function of a runtime's `run.py`. Goes out: the program's outputs by that way, and in eager
mode; where they part, the innermost submodule that parts by itself. `client` has a worker process for each environment:
exporters and runtimes may end it. Must not know: verdicts. What differs by more than rounding is decided in `judge`.
"""
