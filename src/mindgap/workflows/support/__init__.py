"""Surveys which operator calls each platform runs, before anything depends on it (`mindgap coverage`).

Input: a catalogue or graphs, platforms. Output: one answer per platform, operator, dtype and layout, kept in a store.
Must not know campaigns, verdicts or pages.
"""
