"""`trio-profile show`: print a study that was kept, or what is doubtful about it, without writing anything."""

from pathlib import Path
from typing import Annotated

import typer

from trio_profile.cli import printing
from trio_profile.cli.common_options import DIRECTORY, Form, flag
from trio_profile.cli.exits import JUDGED_NO

STRICT = Annotated[bool, flag("--strict", "With --doubts: exit with 1 if there is any.")]


def command(
    directory: DIRECTORY,
    everything: Annotated[bool, flag("--all", "Print every table, the detailed ones too.")] = False,
    doubts: Annotated[
        bool, flag("--doubts", "Say only which numbers are doubtful, each with its threshold and the next step.")
    ] = False,
    strict: STRICT = False,
    *,
    form: Form,
) -> None:
    """Print the study of a directory. Nothing is written and nothing is measured."""
    if doubts:
        _show_doubts(directory, form, strict=strict)
        return
    if strict:
        raise typer.BadParameter("--strict is for `show --doubts`")
    from trio_profile.study import running

    printing.show_study(running.read(directory), form, directory, everything=everything)


def _show_doubts(directory: Path, form: Form, *, strict: bool) -> None:
    """Print the doubts of a study that was measured cell by cell. With `strict`, any doubt leads to the exit code 1."""
    from trio_profile.judge.doubts import doubts
    from trio_profile.records.store import Store
    from trio_profile.report.doubts import report
    from trio_profile.report.page import with_banner

    contents = Store(directory).read()
    doubtful = doubts(contents)
    printing.warn(contents.dropped)
    printing.show(
        form,
        lambda: printing.listed(
            sessions=[session.model_dump(mode="json") for session in contents.sessions],
            environment=contents.environment.model_dump(),
            study=contents.study.model_dump(),
            doubts=[doubt.model_dump() for doubt in doubtful],
        ),
        lambda: with_banner(
            report(contents.study, contents.measurements, doubtful), contents.study.model, contents.sessions
        ),
    )
    if strict and doubtful:
        raise typer.Exit(JUDGED_NO)
