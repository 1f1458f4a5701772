"""`trio-profile work`: measure a study together with other workers."""

import signal
from typing import Annotated

import typer

from trio_profile.cli.common_options import DIRECTORY, OUTPUT
from trio_profile.cli.exits import Interrupted
from trio_profile.cli.progress import progress

SAFETY = "Safety"
"""The panel of the options that say when a worker is given up."""


def command(
    directory: DIRECTORY,
    name: Annotated[
        str,
        typer.Option(
            "--name",
            help="Name of this worker, and of its file: letters, digits, hyphens and underscores. Default: host and "
            "process.",
            rich_help_panel=OUTPUT,
            show_default=False,
        ),
    ] = "",
    limit: Annotated[
        float,
        typer.Option(
            "--limit",
            min=1,
            help="Seconds after which a run is taken for hung, and goes back. A run is one block in one process.",
            rich_help_panel=SAFETY,
        ),
    ] = 3600,
    lease: Annotated[
        float,
        typer.Option(
            "--lease", min=1, help="Seconds after which a silent worker is taken for dead.", rich_help_panel=SAFETY
        ),
    ] = 60,
    attempts: Annotated[
        int,
        typer.Option(
            "--attempts", min=1, help="Failed attempts after which a run is given up.", rich_help_panel=SAFETY
        ),
    ] = 3,
    retry: Annotated[
        bool, typer.Option("--retry", help="Measure the runs again that were given up.", rich_help_panel=SAFETY)
    ] = False,
) -> None:
    """Measure a study together with other workers, on any machine that sees its directory.

    `trio-profile sweep --engine workers --out DIRECTORY` writes the study; so do `compare` and `ablate`. A worker
    claims a block of cells at a time, and ends when no block is left. It may be killed and started again at any time.
    """
    from trio_profile import units
    from trio_profile.cli import printing
    from trio_profile.studies import running, work

    # Slurm and Kubernetes end a worker so. The run that it measures then goes back at once.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with progress() as watch:
            terms = work.Terms(name, lease_seconds=lease, limit_seconds=limit, most_attempts=attempts, retry=retry)
            contents = work.work(directory, terms, watch)
    except KeyboardInterrupt as error:
        raise Interrupted(kept=True) from error
    printing.warn(contents.dropped)
    path = running.write_report_if_free(directory)
    given_up = sum(run.failed is not None for run in contents.runs)
    told = f", {given_up} given up (--retry measures them again)" if given_up else ""
    print(f"{units.number_of(len(contents.runs) - given_up, 'run')} measured{told}")
    print(f"trio-profile show {directory} prints the tables; the report is {path}")
