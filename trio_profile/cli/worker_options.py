"""The options of verbs whose study may be measured by several workers, and what an engine is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from trio_profile.records.schema import Study
    from trio_profile.studies.running import Finished

WORKERS = "Workers"
"""The panel of these options."""


def option(name: str, text: str, **more: Any) -> Any:
    """An option of these verbs. text: its help, with its default."""
    return typer.Option(name, help=text, rich_help_panel=WORKERS, show_default=False, **more)


LIMIT = Annotated[
    float | None,
    option(
        "--limit-seconds",
        "Seconds without progress after which a process is taken for hung, and its run goes back. Default: 3600.",
        min=1,
    ),
]
LEASE = Annotated[
    float | None,
    option(
        "--lease-seconds",
        "Seconds after which a silent worker is taken for dead. Default: 60.",
        min=1,
    ),
]
ATTEMPTS = Annotated[
    int | None,
    option(
        "--attempts",
        "Failed attempts after which a run is given up. Default: 3.",
        min=1,
    ),
]
RETRY = Annotated[
    bool,
    typer.Option(
        "--retry",
        help="Measure the runs again that were given up, or in which a cell failed.",
        rich_help_panel=WORKERS,
    ),
]
OF_WORKERS = {
    "limit_seconds": (LIMIT, None),
    "lease_seconds": (LEASE, None),
    "attempts": (ATTEMPTS, None),
    "retry": (RETRY, False),
}
"""The options of an engine that starts workers, by name, each with its default."""


@dataclass(frozen=True)
class Engine:
    """Who measures a study of cells.

    name: as `--engine` takes it.
    help: one sentence.
    options: the options that only this engine takes, by name, each with its default.
    run: measures a study: `run(study, given)`, where `given` has all options by name. It returns the finished study.
    """

    name: str
    help: str
    options: dict[str, tuple[Any, Any]]
    run: "Callable[[Study, dict[str, Any]], Finished]"


def terms(given: dict[str, Any], **more: Any) -> Any:
    """Return the terms of a worker. given: the options, by name; None is the default of the terms."""
    from trio_profile.engine.board import Terms

    names = {"limit_seconds": "limit_seconds", "lease_seconds": "lease_seconds", "attempts": "most_attempts"}
    named = {field: given[name] for name, field in names.items() if given.get(name) is not None}
    return Terms(**named, retry=given["retry"], **more)
