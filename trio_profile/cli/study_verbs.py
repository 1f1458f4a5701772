"""The verbs of the study kinds, built from the registry: a new kind has its verb without another edit."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

import typer

from trio_profile.cli import engines, options, printing
from trio_profile.cli.exits import Interrupted
from trio_profile.cli.progress import progress
from trio_profile.records.files import MEASUREMENTS
from trio_profile.studies.kind import Kind
from trio_profile.studies.kinds import find

if TYPE_CHECKING:
    from trio_profile.studies.asked import Draft
    from trio_profile.studies.running import Finished


def build(kind: Kind) -> Callable[..., None]:
    """The command of a kind of study."""

    def command(**given: Any) -> None:
        run(kind, given)

    return described(command, kind)


def described(command: Callable[..., None], kind: Kind, extra: Sequence[Parameter] = ()) -> Callable[..., None]:
    """A function with the signature and the help of a kind's verb.

    command: takes every option by its name.
    extra: further options of this verb.
    """
    command.__doc__ = kind.summary
    command.basic = options.basic(kind) | {option.name for option in extra}  # pyright: ignore[reportFunctionMemberAccess]
    command.__signature__ = Signature([*options.parameters(kind), *extra])  # pyright: ignore[reportFunctionMemberAccess]
    return command


def run(kind: Kind, given: dict[str, Any]) -> Any:
    """Run a study and print it. Returns its document, or None if nothing was measured here.

    given: the options of the verb, by name.
    """
    form = printing.form(json=given["json"], markdown=given["markdown"], latex=given["latex"])
    if given["dry_run"]:
        _dry_run(kind, given, form)
        return None
    if given["log"] is not None and given["out"] is None:
        raise typer.BadParameter(f"--log {given['log']} takes the study from its directory: name one with --out")
    engines.require_engine(given)
    if given.get("engine") == "workers":
        engines.write_for_workers(_draft(kind, given).complete(), given)
        return None
    finished = _finished(kind, given)
    printing.warn(finished.warnings)
    logged = printing.log(given["log"], finished, given["out"])
    display = {"unit": given["unit"]} if given.get("unit") else {}
    printing.show_study(finished, form, given["out"], logged=logged, **display)
    return finished.document


def _dry_run(kind: Kind, given: dict[str, Any], form: printing.Form) -> None:
    """Print what the study would measure. Raises BadParameter for a kind that measures nothing."""
    if not kind.preview:
        raise typer.BadParameter(f"--dry-run: {kind.name} measures nothing; run it without --dry-run")
    with progress() as watch:
        study = _draft(kind, given).complete()
        kind = find(study.verb)
        document = kind.load("preview")(study, watch)
    printing.show(form, lambda: document.model_dump_json(indent=2), lambda: kind.load("preview_report")(document))


def _finished(kind: Kind, given: dict[str, Any]) -> "Finished":
    """The study after it has run. Raises Interrupted on Ctrl-C, and LogError before it runs if it cannot be logged."""
    from trio_profile.studies import logs, running

    out, logger = given["out"], given["log"]
    try:
        draft = _draft(kind, given)
        running.refuse(draft, out, resume=given["resume"])
        if logger is not None:
            logs.find(logger).require()
        with progress() as watch, _server(kind, given):
            study = draft.complete()
            engine = engines.ENGINES.get(given.get("engine") or "")
            if engine is None:
                return running.run(study, out, resume=given["resume"], watch=watch)
        return engine.run(study, given)
    except KeyboardInterrupt as error:
        raise Interrupted(kept=out is not None and kind.goes_on) from error


def _server(kind: Kind, given: dict[str, Any]) -> AbstractContextManager[None]:
    """Start the process that will measure, while this one prepares the study."""
    from trio_profile.engine.processes import started_early

    is_local = given.get("engine") in (None, "local") and given.get("processes") != 1
    return started_early() if kind.file == MEASUREMENTS and is_local else nullcontext()


def _draft(kind: Kind, given: dict[str, Any]) -> "Draft":
    from trio_profile.studies import asked

    return asked.draft(kind.name, options.fields(kind.load("study"), given), given["study"])
