"""The command ``scirocco``: its parts, and how errors are told."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from scirocco.command_line import cluster, data, demo, reproduce, runs, sample, topics
from scirocco.command_line.outcome import (
    ERROR,
    FINE,
    INTERRUPTED,
    NAME,
    WRONG,
    Stopped,
    WrongCall,
    message_of,
    remark,
    warnings_in_one_line,
)

EXIT_CODES = (
    "Exit codes: 0 the result can be used, 1 an error, 2 a wrong call, 3 the verdict is 'do not use it', "
    "130 interrupted and resumable."
)
DEBUG = "--debug"

app = typer.Typer(
    name=NAME, invoke_without_command=True, pretty_exceptions_enable=False, rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
for command, ends in (
    (demo.demo, demo.EXAMPLES), (topics.topics, topics.EXAMPLES), (cluster.cluster, cluster.EXAMPLES),
    (sample.sample, sample.EXAMPLES), (runs.resume, runs.RESUME_EXAMPLES), (runs.report, runs.REPORT_EXAMPLES),
    (runs.info, runs.INFO_EXAMPLES), (reproduce.reproduce, reproduce.EXAMPLES), (data.data, data.EXAMPLES),
):  # fmt: skip
    app.command(epilog=ends)(command)


@app.callback(epilog=EXIT_CODES)
def scirocco(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="The version.")] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Errors with their traceback; may stand anywhere.")] = False,
) -> None:
    """Bayesian inference on data too large for ordinary MCMC."""
    del debug
    if version:
        from scirocco import __version__

        print(__version__)
    elif context.invoked_subcommand is None:
        print(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Carry out a command; its exit code."""
    debug = DEBUG in arguments
    given = [word for word in arguments if word != DEBUG]
    try:
        with warnings_in_one_line():
            code = app(given, standalone_mode=False, prog_name=NAME)
        return code if isinstance(code, int) else FINE
    except Stopped as stop:
        remark(str(stop))
        return INTERRUPTED
    except KeyboardInterrupt:
        remark("stopped")
        return INTERRUPTED
    except Exception as error:
        if debug:
            raise
        shown = getattr(error, "format_message", None)  # of a wrong call, by typer
        if shown is not None:
            where = getattr(getattr(error, "ctx", None), "command_path", NAME)
            remark(f"error: {shown()} ({where} --help says more)")
            return int(getattr(error, "exit_code", WRONG))
        remark(f"error: {message_of(error)}")
        return WRONG if isinstance(error, WrongCall) else ERROR


def main() -> None:
    """What is installed as ``scirocco``."""
    sys.exit(run(sys.argv[1:]))
