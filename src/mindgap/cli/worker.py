"""Implements `mindgap worker`, a worker process for command lines that start one elsewhere."""

from __future__ import annotations

from typing import NoReturn

import typer


def worker(context: typer.Context) -> NoReturn:
    """Serve jobs for one platform on standard input and output.

    Example: ssh board mindgap worker --platform cpu/eager
    """
    from mindgap.run.worker import main

    main(context.args)
