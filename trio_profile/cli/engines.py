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


def require_engine(values: dict[str, Any]) -> None:
    """Raise BadParameter if an option of an engine is given without this engine. values: the options, by name."""
    for name, (_, default) in ENGINE_OPTIONS.items():
        takers = [engine for engine, described in ENGINES.items() if name in described.options]
        if values.get(name, default) != default and values["engine"] not in takers:
            raise typer.BadParameter(f"--{name.replace('_', '-')} needs --engine {' or '.join(takers)}")


def write_for_workers(study: "Study", values: dict[str, Any]) -> None:
    """Write a study for workers, and say how to start them. values: the options, by name.

    Raises BadParameter if it is to be printed or logged now.
    """
    from trio_profile import units
    from trio_profile.studies import shared

    out = values["out"]
    if values["form"] != "terminal" or values["log"] is not None:
        raise typer.BadParameter(
            f"--engine workers measures nothing yet: print or log it later, with `trio-profile report {out}`"
        )
    runs = units.number_of(shared.prepare(study, out, resume=values["resume"]), "run")
    print(f"{out} holds a study of {runs} on {study.device}. Any number of workers may measure it:")
    trust = " --trust" if any(":" in method for method in study.methods) else ""
    print(f"    trio-profile work {out}{trust}")
