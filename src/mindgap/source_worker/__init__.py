"""Opens a command's sources and captures their programs in a process of its own, which a user's code may end.

Comes in: sources as a user writes them, limits. Goes out: graphs, and refusals with their place. The worker's side
(`worker`) may run in another environment: it needs what workers of platforms need, and PyTorch.
"""
