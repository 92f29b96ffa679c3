"""Opens `FILE.onnx`: ONNX models, translated to PyTorch and checked node by node.

Comes in: a model file. Goes out: a module of PyTorch calls with a submodule for each
node, and its inputs. Must not know: ONNX Runtime or any other platform.
"""
