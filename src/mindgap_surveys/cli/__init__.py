"""Implements `mindgap coverage`, `portability`, `invariance` and `repeats`."""
