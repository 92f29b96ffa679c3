"""Finds the smallest set of operators that must stay in float32 for the outputs to come back under a bound.

Comes in: a captured program or an ONNX file, a platform, a smaller format, a bound. Goes out: a `Precision`: operators,
each with the error when it alone is given back. The float64 shadow ranks operators; runs of the platform prove the
list. Must not know: the command line.
"""
