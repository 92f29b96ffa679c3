"""Mutates small graphs.

Input: a graph, a random generator, rule tables. Output: edits as data. Does not run the edited graph: the trial run in
`mindgap.models.synth.regions.trial` does.
"""
