"""Answers what comes after a finding: what to keep in float32, since which version, which pass, which inputs show it.

Comes in: a program or model files, a platform. Goes out: a list of operators, a version, an option, rows. Each answer is
proved by runs of the platform. Imports `mindgap` alone.
"""
