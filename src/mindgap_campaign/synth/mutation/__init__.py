"""Mutates small graphs.

Input: a graph, a random generator, rule tables. Output: edits as data. Does not run the edited graph: the trial run in
`mindgap_campaign.synth.regions.trial` does.
"""
