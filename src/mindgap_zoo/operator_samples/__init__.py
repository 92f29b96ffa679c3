"""Opens `ops:NAME`, `modules:NAME` and `onnx:CASE`: samples of PyTorch's own test suite, and ONNX's conformance cases.

Comes in: the name of an operator, of a `torch.nn` module or of a case. Goes out: one program for
each sample. Its tensors are drawn from recipes that give the same bytes on every machine.
"""
