"""Runs thousands of variants on many platforms, judges them, and writes a store. Can be resumed after a kill.

Input: a catalogue, a plan, platforms. Output: a store. Must not know pages. `session.py` begins and resumes a campaign,
`rejudge.py` judges its findings again, `preparation.py` prepares a session, `cluster_session.py` is one on a cluster.
The folders, each of which imports only those before it: `plan` (what to do), `cases` (the graphs to run), `state` (what
the campaign's directory holds), `judging` (judge processes), `schedule` (which platform runs which case, and when),
`cluster` (blocks as tasks of a Ray cluster) and `results` (findings and scripts).
"""
