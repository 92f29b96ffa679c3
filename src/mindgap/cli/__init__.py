"""Implements the command line: every function of the Python API as a command.

Input: argv. Output: a table for people or JSON for machines on standard output, progress and
complaints on standard error, and an exit status. Decides nothing that the API does not decide.
"""

from mindgap.cli.app import main

__all__ = ["main"]
