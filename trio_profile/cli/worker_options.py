"""The options of verbs whose study may be measured by several workers."""

from typing import Annotated, Any, Literal

import typer

WORKERS = "Workers"
"""The panel of these options."""

ENGINE = Annotated[
    Literal["local", "workers", "ray"] | None,
    typer.Option(
        "--engine",
        help="Who measures. local: this command. workers: this command only writes the study, and any number of "
        "`trio-profile work DIRECTORY` measure it, on any machine that sees --out. ray: workers on a Ray cluster whose "
        "nodes see --out. Default: local.",
        rich_help_panel=WORKERS,
        show_default=False,
    ),
]
ADDRESS = Annotated[
    str | None,
    typer.Option(
        "--address",
        help="Ray: the cluster's HOST:PORT, or auto for the one of this machine. Default: auto.",
        rich_help_panel=WORKERS,
        show_default=False,
    ),
]
MOST_WORKERS = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="Ray: the most workers at a time. Default: one for each device.",
        rich_help_panel=WORKERS,
        show_default=False,
    ),
]
CORES = Annotated[
    int | None,
    typer.Option(
        "--cores",
        min=1,
        help="Ray: CPU cores that a worker has for itself. Default: those of the smallest node; on CUDA, its share for "
        "each GPU.",
        rich_help_panel=WORKERS,
        show_default=False,
    ),
]
MEMORY = Annotated[
    float | None,
    typer.Option(
        "--memory",
        min=0.0,
        help="Ray: GiB of main memory to reserve for a worker. Default: none.",
        rich_help_panel=WORKERS,
        show_default=False,
    ),
]
LIMIT = Annotated[
    float | None,
    typer.Option(
        "--limit-seconds",
        min=1,
        help="Seconds without progress after which a process is taken for hung, and its run goes back. Default: 3600.",
        rich_help_panel=WORKERS,
        show_default=False,
    ),
]
LEASE = Annotated[
    float | None,
    typer.Option(
        "--lease-seconds",
        min=1,
        help="Seconds after which a silent worker is taken for dead. Default: 60.",
        rich_help_panel=WORKERS,
        show_default=False,
    ),
]
ATTEMPTS = Annotated[
    int | None,
    typer.Option(
        "--attempts",
        min=1,
        help="Failed attempts after which a run is given up. Default: 3.",
        rich_help_panel=WORKERS,
        show_default=False,
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
OF_RAY: dict[str, tuple[Any, Any]] = {
    "address": (ADDRESS, None),
    "workers": (MOST_WORKERS, None),
    "cores": (CORES, None),
    "memory": (MEMORY, None),
    "limit_seconds": (LIMIT, None),
    "lease_seconds": (LEASE, None),
    "attempts": (ATTEMPTS, None),
    "retry": (RETRY, False),
}
"""The options that only `--engine ray` takes, by name, with their defaults."""


def terms(given: dict[str, Any], **more: Any) -> Any:
    """Return the terms of a worker. given: the options, by name; None is the default of the terms."""
    from trio_profile.studies.work import Terms

    names = {"limit_seconds": "limit_seconds", "lease_seconds": "lease_seconds", "attempts": "most_attempts"}
    named = {field: given[name] for name, field in names.items() if given.get(name) is not None}
    return Terms(**named, retry=given["retry"], **more)
