"""Writes the pages of coverage, and of invariance and repeats."""
