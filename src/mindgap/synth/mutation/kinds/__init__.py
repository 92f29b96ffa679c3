"""The kinds of mutation, one module each: a graph's wiring and rules in, edits or None out."""
