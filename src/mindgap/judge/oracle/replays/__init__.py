"""Monte Carlo replays: how far rounding noise at every operator moves the values of a graph.

Comes in: the stepwise shadow with its bounds. Goes out: standard deviations and the classes of values that were seen.
Knows nothing of the outputs of platforms.
"""
