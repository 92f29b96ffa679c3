"""Compares mindgap's verdicts with those that a person decided for small programs."""
