"""Holds the fixed parts of a stand-alone script. Each module's source is pasted in, without imports of this package.

A part imports only torch, numpy, the standard library and its runtime. The model, the inputs and the platform are
arguments.
"""
