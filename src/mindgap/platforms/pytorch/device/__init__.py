"""Devices that PyTorch computes on: a table of them, their availability, their options.

`devices`, `options` and `availability` are for the parent process and import no framework. `runtime`, `switches` and
`settings` run in a worker.
"""
