"""Implements `mindgap study` and its subcommands."""
