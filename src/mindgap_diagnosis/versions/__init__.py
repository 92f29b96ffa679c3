"""Finds the release of a runtime, or of PyTorch, from which on a model shows a fault.

Comes in: a source, a platform, a version that is right and one that is not. Goes out: the first release that shows the
fault, and the verdict of each release that ran. It makes environments, and must not know how a verdict is reached.
"""
