"""The command line: everything the Python API does, as commands.

Comes in: argv. Goes out: a table for people or JSON for machines on standard output, progress and
complaints on standard error, and an exit status. Decides nothing that the API does not decide.
"""

from mindgap.cli.app import main

__all__ = ["main"]
