"""The fixed parts of a stand-alone script: each module's source is pasted in, without its imports of this package.

A part imports torch, numpy, the standard library and the runtime that it is about, nothing else. Whatever a case
decides (the model, the inputs, the platform) reaches it as an argument.
"""
