"""Decides which platform runs which case, and drives the queues.

Input: blocks of cases, worker pools, judges. Output: rows in the store. Must not know how a row is judged.
"""
