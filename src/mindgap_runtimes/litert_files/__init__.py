"""Opens `FILE.tflite`: LiteRT (TensorFlow Lite) models, translated to PyTorch and checked node by node.

Comes in: a model file. Goes out: a module of PyTorch calls with a submodule for each node, and its inputs. The file is
read as data; of LiteRT this package knows what the environment `litert` answers for its reference kernels.
"""
