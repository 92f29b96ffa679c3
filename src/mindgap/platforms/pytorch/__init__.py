"""What the platforms made of PyTorch have in common; none of these modules is a platform.

`options` and `presence` are for the parent process and import no framework. The others run in a worker:
settings put in force and checked, graphs rewritten (float64, memory layout), arrays turned into tensors,
gradients, the graph as an FX module, and which of PyTorch's errors are refusals.
"""
