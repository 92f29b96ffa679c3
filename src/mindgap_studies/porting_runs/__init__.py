"""Runs functions of the public APIs of PyTorch, JAX and TensorFlow on a source and on targets.

Comes in: a framework, the folders whose Python files are scanned, how many functions are drawn. Goes out: for each
function and target, which samples are ported, why the others are lost, and seconds of single calls. Each function of
JAX and TensorFlow runs in a forked process with limits (`isolated_call`); those of PyTorch run on platforms, in the
worker pool. Must not know tables.
"""
