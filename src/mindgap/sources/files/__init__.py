"""Opens the user's own files: Python callables, `torch.export` archives, graph files.

Comes in: a path or a module name. Goes out: programs as the user wrote them, or graphs that need no capture.
"""
