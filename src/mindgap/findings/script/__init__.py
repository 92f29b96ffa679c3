"""Stand-alone scripts: a graph and its inputs as Python code that needs torch and the runtime concerned, not mindgap.

Comes in: a graph, the arrays of its inputs, the names of two platforms with the environment that each needs, and what
was recorded of the run. Goes out: the text of a script, and the files of tensors too large to be written into it.
The script runs eager, float64 and the platform by the way that its users go, and compares them. Knows no platform's
implementation, no store and no verdict: the caller gives it the text to print.
"""
