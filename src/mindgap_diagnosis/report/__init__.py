"""The page of an upgrade. Comes in: an upgrade and its reduced changes. Goes out: HTML."""
