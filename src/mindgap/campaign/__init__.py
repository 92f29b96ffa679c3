"""Variants run by the thousand on many platforms, judged, and written into a store: resumable at any moment.

Comes in: a catalogue, a plan, platforms. Goes out: a store. Knows nothing of pages.
"""
