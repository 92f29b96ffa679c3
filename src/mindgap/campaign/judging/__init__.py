"""Judges rows in separate processes with limits on time and memory, and judges stored findings again.

Input: a case and what the reference and a platform did with it. Output: a row. Must not know the schedule.
"""
