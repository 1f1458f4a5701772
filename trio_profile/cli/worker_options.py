"""The options of verbs whose study may be measured by several workers."""

from typing import Annotated, Any, Literal

import typer

WORKERS = "Workers"
"""The panel of these options."""


def _option(name: str, text: str, **more: Any) -> Any:
    """An option of these verbs. text: its help, with its default."""
    return typer.Option(name, help=text, rich_help_panel=WORKERS, show_default=False, **more)


ENGINE = Annotated[
    Literal["local", "workers", "ray"] | None,
    _option(
        "--engine",
        "Who measures. local: this command. workers: this command only writes the study, and any number of "
        "`trio-profile work DIRECTORY` measure it, on any machine that sees --out. ray: workers on a Ray cluster whose "
        "nodes see --out. Default: local.",
    ),
]
ADDRESS = Annotated[
    str | None,
    _option(
        "--address",
        "Ray: the cluster's HOST:PORT, or auto for the one of this machine. Default: auto.",
    ),
]
MOST_WORKERS = Annotated[
    int | None,
    _option(
        "--workers",
        "Ray: the most workers at a time. Default: one for each device.",
        min=1,
    ),
]
CORES = Annotated[
    int | None,
    _option(
        "--cores",
        "Ray: CPU cores that a worker has for itself. Default: those of the smallest node; on CUDA, its share for "
        "each GPU.",
        min=1,
    ),
]
MEMORY = Annotated[
    float | None,
    _option(
        "--memory",
        "Ray: GiB of main memory to reserve for a worker. Default: none.",
        min=0.0,
    ),
]
LIMIT = Annotated[
    float | None,
    _option(
        "--limit-seconds",
        "Seconds without progress after which a process is taken for hung, and its run goes back. Default: 3600.",
        min=1,
    ),
]
LEASE = Annotated[
    float | None,
    _option(
        "--lease-seconds",
        "Seconds after which a silent worker is taken for dead. Default: 60.",
        min=1,
    ),
]
ATTEMPTS = Annotated[
    int | None,
    _option(
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
    from trio_profile.engine.supervisor import Terms

    names = {"limit_seconds": "limit_seconds", "lease_seconds": "lease_seconds", "attempts": "most_attempts"}
    named = {field: given[name] for name, field in names.items() if given.get(name) is not None}
    return Terms(**named, retry=given["retry"], **more)
