"""`trio-profile work`: measure a study together with other workers."""

import signal
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any

from trio_profile.cli import worker_options
from trio_profile.cli.common_options import DIRECTORY, flag, keyword
from trio_profile.cli.exits import Interrupted
from trio_profile.cli.progress import progress
from trio_profile.records.option import WORKERS

if TYPE_CHECKING:
    from trio_profile.engine.board import Board


TRUST = Annotated[bool, flag("--trust", "Import the methods module:Class that the study names, and so run their code.")]
STATUS = Annotated[
    bool,
    flag("--status", "Measure nothing. Print which worker measures what, and how many runs are left.", panel=WORKERS),
]


def command(**values: Any) -> None:
    """Measure a study together with other workers, on any machine that sees its directory.

    `trio-profile sweep --engine workers --out DIRECTORY` writes the study; so do `compare` and `ablate`. A worker
    claims a block of cells at a time, and ends when no block is left. It may be killed and started again at any time.
    """
    from trio_profile import units
    from trio_profile.cli import printing
    from trio_profile.engine.board import board_of
    from trio_profile.records.files import STUDY
    from trio_profile.studies import asked, running, shared

    directory, terms = values["directory"], worker_options.terms(values)
    if values["status"]:
        _print_status(board_of(shared.stored(directory), directory, terms))
        return
    if not values["trust"]:
        asked.refuse_code(shared.stored(directory).model_dump(), f"study {directory / STUDY}")
    # Slurm and Kubernetes end a worker so. The run that it measures then goes back at once.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with progress() as watch:
            contents = shared.work(directory, terms, watch)
    except KeyboardInterrupt as error:
        raise Interrupted(kept=True) from error
    printing.warn(contents.dropped)
    path = running.write_report_if_free(directory)
    given_up = sum(run.failed is not None for run in contents.runs)
    failed = sum(cell.reason is not None and cell.status != "refused" for cell in contents.cells.values())
    parts = [f"{units.number_of(len(contents.runs) - given_up, 'run')} measured"]
    parts += [f"{given_up} given up"] if given_up else []
    parts += [f"{units.number_of(failed, 'cell')} failed"] if failed else []
    print(", ".join(parts))
    print(f"trio-profile show {directory} prints the tables; the report is {path}")


command.__signature__ = Signature(  # pyright: ignore[reportFunctionMemberAccess]
    [
        keyword("directory", DIRECTORY, Parameter.empty),
        *(keyword(name, *declared) for name, declared in worker_options.OF_A_WORKER.items()),
        keyword("trust", TRUST, False),
        keyword("status", STATUS, False),
    ]
)


def _print_status(board: "Board") -> None:
    """Print which worker measures what."""
    from trio_profile.cli.overview import lines
    from trio_profile.engine.overview import overview

    board.look()
    print(lines(overview(board)))
