"""Opens `onnx:CASE`: conformance cases of ONNX, translated to PyTorch and checked against ONNX's expected outputs.

Comes in: a case name. Goes out: a program of PyTorch calls. Must not know: ONNX Runtime or any other platform.
"""
