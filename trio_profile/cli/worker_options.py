"""The options of a worker, for `work` and for the engines that start workers, and what an engine is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer
from pydantic import ValidationError

from trio_profile.cli import options
from trio_profile.engine.board import Terms
from trio_profile.records.option import options_of
from trio_profile.records.record import first_problem

if TYPE_CHECKING:
    from trio_profile.records.schema import Study
    from trio_profile.studies.running import Finished

OF_A_WORKER: dict[str, tuple[Any, Any]] = {
    name: (options.declared(Terms, name, default=options.default_text(Terms, name)), None) for name in options_of(Terms)
}
"""The options of a worker by name, each with its default."""
OF_WORKERS = {name: declared for name, declared in OF_A_WORKER.items() if name != "name"}
"""Those of an engine that starts workers."""


@dataclass(frozen=True)
class Engine:
    """Who measures a study of cells.

    name: as `--engine` takes it.
    help: one sentence.
    options: the options that only this engine takes, by name, each with its default.
    run: measures a study: `run(study, values)`, where `values` has all options by name. It returns the finished study.
    """

    name: str
    help: str
    options: dict[str, tuple[Any, Any]]
    run: "Callable[[Study, dict[str, Any]], Finished]"


def terms(values: dict[str, Any]) -> Terms:
    """Return the terms of a worker. values: the options, by name. Raises BadParameter for a value out of range."""
    try:
        return Terms(**options.fields(Terms, values))
    except ValidationError as error:
        field, message = first_problem(error)
        raise typer.BadParameter(f"{options.flags(Terms, field)[0]}: {message.lower()}") from error
