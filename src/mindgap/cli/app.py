"""Registers the commands, configures logging, and turns errors into exit statuses."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Generator, Sequence
from typing import Annotated, Final

import typer

import mindgap
from mindgap.cli.command_group import CommandGroup
from mindgap.cli.completion import complete_at_first_request
from mindgap.cli.streams import Exit, complain
from mindgap.cli.versions import versions
from mindgap.graph import MindgapError
from mindgap.graph.tensors import home
from mindgap.run.log_setup import VARIABLE, configure_logging

#: What a disk, a quota or permissions refuse: for the user to mend, and no failure of mindgap.
_SURROUNDINGS: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM))

app = typer.Typer(
    cls=CommandGroup,
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Finds where a model's behaviour changes when the hardware or the runtime under it does.",
    epilog="Exit status: 0 nothing found, 1 findings, 2 wrong use or bad input, 3 mindgap itself failed.",
)
complete_at_first_request()


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the versions of mindgap, Python, PyTorch and runtimes.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Log what is done to standard error (MINDGAP_LOG=DEBUG: more).")
    ] = False,
) -> None:
    """Handles the options that every command shares."""
    # Users' warnings are about their sources: a line of mindgap's code does not help them.
    warnings.formatwarning = _note
    # Of numpy and other libraries: no note on a source.
    warnings.simplefilter("ignore", RuntimeWarning)
    if verbose:
        # Worker processes inherit it.
        os.environ.setdefault(VARIABLE, "INFO")
    try:
        configure_logging()
    except ValueError as error:
        raise MindgapError(str(error)) from None
    logging.getLogger(__name__).info("mindgap %s: %s", mindgap.__version__, context.invoked_subcommand)
    if version:
        typer.echo(versions())
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(Exit.WRONG_USE)


def _note(message: Warning | str, *_: object) -> str:
    return f"mindgap: note: {' '.join(str(message).split())}\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command: see `mindgap.cli.main`, which does more before."""
    with _terminated() as signals:
        status = _run(argv)
    return 128 + signals[0] if signals else status


@contextlib.contextmanager
def _terminated() -> Generator[list[int]]:
    """Makes SIGTERM end a command as Ctrl-C does, so that no process or file is left. Yields the signals that came.

    A second SIGTERM is ignored: it would interrupt the removal of temporary files.
    """
    came: list[int] = []

    def interrupt(number: int, _: object) -> None:
        came.append(number)
        if len(came) == 1:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield came
        return
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _run(argv: Sequence[str] | None) -> int:
    try:
        try:
            # `--verbose` first: it may stand anywhere among the options of a command.
            given = sorted(sys.argv[1:] if argv is None else argv, key=lambda argument: argument != "--verbose")
            status = app(args=given, prog_name="mindgap", standalone_mode=False)
        finally:
            # Writes the buffer of standard output, where there is one: `mindgap.cli.main` ends the process without it.
            typer.echo(nl=False)
        # Typer turns Ctrl-C into this number. A command that returns the status itself has reported it.
        if type(status) is int and status == Exit.INTERRUPTED:
            complain("interrupted")
        return int(status or 0)
    except typer.TyperException as error:
        # Only usage errors come here, and they word themselves; the base class has no such method.
        worded = getattr(error, "format_message", None)
        context = getattr(error, "ctx", None)
        complain(f"{worded() if worded else error} (see {context.command_path if context else 'mindgap'} --help)")
        return Exit.WRONG_USE
    except MindgapError as error:
        complain(str(error))
        return Exit.WRONG_USE
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough (`mindgap platforms | head`); Python would complain once more at its exit.
        sys.stderr.close()
        return Exit.NOTHING_FOUND
    except OSError as error:
        if error.errno not in _SURROUNDINGS and not _is_under_home(error.filename):
            return _failed()
        complain(
            f"{error.filename or 'a file'} cannot be used: {error.strerror}; "
            "MINDGAP_HOME and TMPDIR name other directories"
        )
        return Exit.WRONG_USE
    except Exception:
        return _failed()


def _is_under_home(file: object) -> bool:
    """Whether a file lies in, or on the way to, the home of mindgap, which MINDGAP_HOME names."""
    ours = os.path.abspath(home())
    return isinstance(file, str) and f"{os.path.abspath(file)}{os.sep}".startswith(f"{ours}{os.sep}")


def _failed() -> Exit:
    """Prints the traceback of the current exception."""
    traceback.print_exc()
    complain("this is a failure of mindgap itself, not of your input: please report it with the lines above")
    return Exit.TOOL_FAILED
