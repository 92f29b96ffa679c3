"""The two shadows of a graph: its values as float64 arithmetic gives them.

Comes in: a graph bound to float64 and its inputs. Goes out: the wide shadow W (float64 throughout) and the stepwise
shadow S (each operator in float64, rounded once), with bounds and undefined elements. Knows nothing of platforms.
"""
