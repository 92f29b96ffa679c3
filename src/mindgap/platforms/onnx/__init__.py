"""Translates graphs to ONNX models for the runtimes that read them.

Comes in: a `Graph` and the values of its inputs. Goes out: the serialized model, the names of its inputs and outputs,
and for each ONNX node the ATen operator that it came from. It must not know which runtime reads the model.
"""
