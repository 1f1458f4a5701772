"""Who measures a study of cells: this machine, or an engine of an optional part."""

from typing import Annotated, Any, Literal

import typer

from trio_profile import parts
from trio_profile.cli.common_options import flag
from trio_profile.records.option import HOSTS

ENGINES = {name: module.ENGINE for name, module in parts.modules("engine")}
"""The engines of the optional parts, by name. Each is a `hosts.Choice`."""
ENGINE_OPTIONS = {name: declared for engine in ENGINES.values() for name, declared in engine.options.items()}
"""The options of these engines, by name, each with its default."""
ENGINE = Annotated[
    Literal["local", *ENGINES] | None,
    flag(
        "--engine",
        "Who measures. local: this machine. "
        + "".join(f"{name}: {engine.help} " for name, engine in ENGINES.items())
        + "Default: local.",
        panel=HOSTS,
    ),
]


def require_engine(values: dict[str, Any]) -> None:
    """Raise BadParameter if an option of an engine is given without this engine. values: the options, by name."""
    for name, (_, default) in ENGINE_OPTIONS.items():
        takers = [engine for engine, described in ENGINES.items() if name in described.options]
        if values.get(name, default) != default and values["engine"] not in takers:
            raise typer.BadParameter(f"--{name.replace('_', '-')} needs --engine {' or '.join(takers)}")
