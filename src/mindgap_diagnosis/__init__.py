"""Answers what comes after a finding: what to keep in float32, since which version, which pass, which inputs show it.

Comes in: a program or model files, a platform. Goes out: a list of operators, a version, an option, rows. Runs of the
platform prove each answer. Imports `mindgap` alone.
"""
