"""Runs a program with others, in other batches and again, and decodes texts: what changes a result."""
