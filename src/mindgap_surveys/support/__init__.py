"""Surveys which operator calls each platform runs, and runs right (`mindgap coverage`), before anything depends on it.

Input: a catalogue or graphs, platforms. Output: one answer per platform, operator, dtype and layout, kept in a store,
and how what runs compares with the reference. Beside it, what packages list, and the time of single operators.
Must not know campaigns or pages.
"""
