"""The verbs of the study kinds, built from the registry: a new kind has its verb without another edit."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trio_profile import parts
from trio_profile.cli import options, printing
from trio_profile.cli.common_options import (
    ALL_OPTIONS,
    DRY_RUN,
    RESUME,
    STUDY_FILE,
    TRUST,
    Form,
    flag,
    keyword,
)
from trio_profile.cli.exits import Interrupted
from trio_profile.cli.progress import progress
from trio_profile.records.files import MEASUREMENTS
from trio_profile.records.option import HOSTS, options_of
from trio_profile.study.kind import Kind
from trio_profile.study.kinds import find

if TYPE_CHECKING:
    from trio_profile.study.asked import Draft
    from trio_profile.study.running import Finished


ONE_PROCESS = (
    "processes = 1: `trio-profile gate` will refuse these times, because one process does not show how much another "
    "one would differ; leave --processes out to judge them"
)
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
UNIT = Annotated[Literal["macs", "flops"] | None, flag("--unit", "Unit of the tables. Default: macs.")]


def build(kind: Kind) -> Callable[..., None]:
    """The command of a kind of study."""
    return described(lambda **values: run(kind, values), kind)


def described(command: Callable[..., None], kind: Kind, extra: Sequence[Parameter] = ()) -> Callable[..., None]:
    """A function with the signature and the help of a kind's verb.

    command: takes every option by its name.
    extra: further options of this verb.
    """
    command.__doc__ = kind.summary
    command.basic = basic(kind) | {option.name for option in extra}  # pyright: ignore[reportFunctionMemberAccess]
    command.__signature__ = Signature([*parameters(kind), *extra])  # pyright: ignore[reportFunctionMemberAccess]
    return command


def parameters(kind: Kind) -> list[Parameter]:
    """The parameters of a kind's verb: the options of its fields, then those of every verb."""
    study = kind.load("study")
    taken = [
        keyword(
            name, options.declared(study, name, several=name in kind.several, default=options.default_of(kind, name))
        )
        for name in options_of(study)
        if name in kind.options
    ]
    out = f"Keep the study and its report in this directory. Default: {kind.out or 'nothing is kept'}."
    common: dict[str, tuple[Any, Any]] = {
        "help_all": (ALL_OPTIONS, False),
        "study": (STUDY_FILE, None),
        "out": (Annotated[Path | None, flag("--out", out)], Path(kind.out) if kind.out else None),
        "resume": (RESUME, True),
        "dry_run": (DRY_RUN, False),
        "form": (Form, "terminal"),  # `with_form` makes flags of it
    }
    if kind.runs_a_model:
        common |= {"trust": (TRUST, False)}
    if kind.units:
        common |= {"unit": (UNIT, None)}
    if kind.file == MEASUREMENTS:
        common |= {"engine": (ENGINE, None), **ENGINE_OPTIONS}
    return taken + [keyword(name, type_, default) for name, (type_, default) in common.items()]


def basic(kind: Kind) -> set[str]:
    """The names of the options that a verb's `--help` lists. `--help-all` lists every option."""
    return {
        "out",
        "dry_run",
        "json",
        "help_all",
        *(name for name, option in options_of(kind.load("study")).items() if option.basic),
    }


def run(kind: Kind, values: dict[str, Any]) -> Any:
    """Run a study and print it. Returns its document, or None if nothing was measured here.

    values: the options of the verb, by name.
    """
    if values["dry_run"]:
        _dry_run(kind, values)
        return None
    _require_engine(values)
    finished = _finished(kind, values)
    display = {"unit": values["unit"]} if values.get("unit") else {}
    printing.show_study(finished, values["form"], values["out"], **display)
    return finished.document


def _require_engine(values: dict[str, Any]) -> None:
    """Raise BadParameter if an option of an engine is given without this engine. values: the options, by name."""
    for name, (_, default) in ENGINE_OPTIONS.items():
        takers = [engine for engine, described in ENGINES.items() if name in described.options]
        if values.get(name, default) != default and values["engine"] not in takers:
            raise typer.BadParameter(f"--{name.replace('_', '-')} needs --engine {' or '.join(takers)}")


def _dry_run(kind: Kind, values: dict[str, Any]) -> None:
    """Print what the study would measure. Raises BadParameter for a kind that measures nothing."""
    if not kind.preview:
        raise typer.BadParameter(f"--dry-run: {kind.name} measures nothing; run it without --dry-run")
    with progress() as watch:
        study = _draft(kind, values).complete()
        kind = find(study.verb)
        document = kind.load("preview")(study, watch)
    report = kind.load("preview_report")
    printing.show(values["form"], lambda: document.model_dump_json(indent=2), lambda: report(document))


def _finished(kind: Kind, values: dict[str, Any]) -> "Finished":
    """The study after it has run. Raises Interrupted on Ctrl-C."""
    from trio_profile.study import running

    out = values["out"]
    try:
        draft = _draft(kind, values)
        running.refuse(draft, out, resume=values["resume"])
        with progress() as watch, _engine(kind, values) as engine:
            return running.run(draft.complete(), out, resume=values["resume"], watch=watch, engine=engine)
    except KeyboardInterrupt as error:
        raise Interrupted(kept=out is not None and kind.goes_on) from error


def _engine(kind: Kind, values: dict[str, Any]) -> AbstractContextManager[Any]:
    """Who measures, begun while this process prepares the study. None for a study that this process measures."""
    if kind.file != MEASUREMENTS:
        return nullcontext()
    if (name := values.get("engine")) in ENGINES:
        return ENGINES[name].begin(values)
    from trio_profile.engine.hosts import ThisMachine

    return nullcontext() if values.get("processes") == 1 else ThisMachine()


def _draft(kind: Kind, values: dict[str, Any]) -> "Draft":
    from trio_profile.study import asked

    fields, trust = options.fields(kind.load("study"), values), values.get("trust", False)
    draft = asked.draft(kind.name, fields, values["study"], trust=trust)
    if getattr(draft.study, "processes", None) == 1:
        printing.warn([ONE_PROCESS])
    return draft
