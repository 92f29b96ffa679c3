"""Makes the graphs that a campaign runs.

Input: a plan and a catalogue or a bundle. Output: blocks of cases. Must not know platforms or results.
"""
