"""Judges rows in separate processes with limits on time and memory.

Input: a case, the outcome of the reference and the outcome of a platform. Output: a row. Must not know the schedule.
"""
