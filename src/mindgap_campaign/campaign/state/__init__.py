"""Reads and writes what a campaign's directory holds: plan, status, steps, CPU expenses, resume state.

Input: a directory. Output: data. Starts no process and runs no graph.
"""
