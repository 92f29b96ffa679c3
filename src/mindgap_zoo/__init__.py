"""Opens models of libraries and hubs, recorded graphs, and samples of operators of PyTorch and ONNX, as schemes of
sources.

Comes in: a source (`timm:resnet18`). Goes out: programs with arguments. Imports `mindgap` alone.
"""
