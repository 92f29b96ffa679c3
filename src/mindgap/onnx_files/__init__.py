"""Opens `FILE.onnx` and `onnx:CASE`: ONNX models, translated to PyTorch and checked node by node.

Comes in: a model file, or the name of a conformance case. Goes out: a module of PyTorch calls with a submodule for each
node, and its inputs. Must not know: ONNX Runtime or any other platform.
"""
