"""Opens models of libraries, recorded graphs and samples of PyTorch's operators, as schemes of sources.

Comes in: a source (`timm:resnet18`). Goes out: programs with arguments. Imports `mindgap` alone.
"""
