"""Who measures a study of cells: this command, workers that are started by hand, or an engine of an optional part."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trio_profile import parts
from trio_profile.cli.common_options import flag
from trio_profile.cli.worker_options import Engine
from trio_profile.records.option import WORKERS

if TYPE_CHECKING:
    from trio_profile.records.schema import Study

ENGINES: dict[str, Engine] = {name: module.ENGINE for name, module in parts.modules("engine")}
"""The engines of the optional parts, by name."""
ENGINE_OPTIONS = {name: declared for engine in ENGINES.values() for name, declared in engine.options.items()}
"""The options of these engines, by name, each with its default."""
ENGINE = Annotated[
    Literal["local", "workers", *ENGINES] | None,
    flag(
        "--engine",
        "Who measures. local: this command. workers: this command only writes the study, and any number of "
        "`trio-profile work DIRECTORY` measure it, on any machine that sees --out. "
        + "".join(f"{name}: {engine.help} " for name, engine in ENGINES.items())
        + "Default: local.",
        panel=WORKERS,
    ),
]


def require_engine(given: dict[str, Any]) -> None:
    """Raise BadParameter if an option of an engine is given without this engine. given: the options, by name."""
    for name, (_, default) in ENGINE_OPTIONS.items():
        takers = [engine for engine, described in ENGINES.items() if name in described.options]
        if given.get(name, default) != default and given["engine"] not in takers:
            raise typer.BadParameter(f"--{name.replace('_', '-')} needs --engine {' or '.join(takers)}")


def write_for_workers(study: "Study", given: dict[str, Any]) -> None:
    """Write a study for workers, and say how to start them. given: the options, by name.

    Raises BadParameter if it is to be logged now.
    """
    from trio_profile import units
    from trio_profile.studies import shared

    out = given["out"]
    if form := next((form for form in ("json", "markdown", "latex") if given[form]), None):
        raise typer.BadParameter(
            f"--{form}: nothing is measured yet; `trio-profile show {out} --{form}` prints it later"
        )
    if given["log"] is not None:
        raise typer.BadParameter(
            f"--log {given['log']}: nothing is measured yet; log it later with "
            f"`trio-profile report {out} --log {given['log']}`"
        )
    runs = shared.prepare(study, out, resume=given["resume"])
    held = f"{units.number_of(runs, 'run')} on {study.device}"
    print(f"{out} holds a study of {held}. Any number of workers may measure it:")
    print(f"    trio-profile work {out}")
