"""`--engine ray`: its options, and how the verbs of the command line call it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from trio_profile.cli import overview, worker_options
from trio_profile.cli.common_options import flag
from trio_profile.cli.progress import plain_lines
from trio_profile.cli.worker_options import OF_WORKERS, Engine
from trio_profile.progress import Step
from trio_profile.records.option import WORKERS

if TYPE_CHECKING:
    from trio_profile.engine.overview import Overview
    from trio_profile.records.schema import Study
    from trio_profile.studies.running import Finished

ADDRESS = Annotated[
    str | None,
    flag(
        "--address", "Ray: the cluster's HOST:PORT, or auto for the one of this machine. Default: auto.", panel=WORKERS
    ),
]
MOST_WORKERS = Annotated[
    int | None,
    flag("--workers", "Ray: the most workers at a time. Default: one for each device.", panel=WORKERS, min=1),
]
CORES = Annotated[
    int | None,
    flag(
        "--cores",
        "Ray: CPU cores that a worker has for itself. Default: those of the smallest node; on CUDA, its share for "
        "each GPU.",
        panel=WORKERS,
        min=1,
    ),
]
MEMORY = Annotated[
    float | None,
    flag("--memory", "Ray: GiB of main memory to reserve for a worker. Default: none.", panel=WORKERS, min=0.0),
]


@contextmanager
def live() -> "Iterator[Callable[[Overview], None]]":
    """Yield the function that is called with each state of the study."""
    if not sys.stderr.isatty():
        watch = plain_lines(sys.stderr)
        yield lambda state: watch(Step(overview.summary(state)))
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), transient=True) as screen:
        yield lambda state: screen.update(overview.lines(state), refresh=True)


def run(study: "Study", values: dict[str, Any]) -> "Finished":
    """Measure a study on a Ray cluster, and write its report. values: the options, by name.

    Raises the errors of `driver.run`.
    """
    from trio_profile.extras.ray import driver
    from trio_profile.studies import running

    need = driver.Need(
        cores=values["cores"],
        gpus=int(study.device.startswith("cuda")),
        memory_bytes=int((values["memory"] or 0) * 2**30),
        workers=values["workers"],
    )
    out, address, terms = values["out"], values["address"] or "auto", worker_options.terms(values)
    with live() as show:
        driver.run(study, out, need, show, address=address, terms=terms, resume=values["resume"])
    return running.write_report_again(out)


ENGINE = Engine(
    name="ray",
    help="workers on a Ray cluster whose nodes see --out.",
    options={
        "address": (ADDRESS, None),
        "workers": (MOST_WORKERS, None),
        "cores": (CORES, None),
        "memory": (MEMORY, None),
        **OF_WORKERS,
    },
    run=run,
)
