"""Runs graphs on runtimes besides PyTorch, ONNX Runtime and OpenVINO: one package for each.

Comes in: a graph. Goes out: outputs or a typed failure. Imports `mindgap` alone, and no runtime imports another.
"""
