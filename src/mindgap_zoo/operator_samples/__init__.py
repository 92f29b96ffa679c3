"""Opens `ops:NAME` and `modules:NAME`: the sample inputs of PyTorch's own test suite.

Comes in: the name of an operator or of a `torch.nn` module. Goes out: one program for each sample. Its tensors are
drawn from recipes that give the same bytes on every machine.
"""
