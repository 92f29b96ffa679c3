"""Makes of findings what a vendor can act on: small graphs, scripts, distinct causes.

Comes in: rows that are findings, with their graphs. Goes out: reduced graphs, scripts that run without mindgap, causes
with severity and stage, and what of them is known already. Must not know how a campaign or a comparison was run.
"""
