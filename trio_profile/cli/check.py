"""`trio-profile check`: can the numbers of a study be believed, and if not, what to do about it?"""

from typing import TYPE_CHECKING, Annotated

import typer

from trio_profile.cli import printing
from trio_profile.cli.common_options import DIRECTORY, JSON, LATEX, MARKDOWN, OUTPUT
from trio_profile.cli.exits import JUDGED_NO

if TYPE_CHECKING:
    from trio_profile.analysis.doubts import Doubt
    from trio_profile.findings.blocks import Report
    from trio_profile.records.contents import Contents


def command(
    directory: DIRECTORY,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if there is any doubt.", rich_help_panel=OUTPUT)
    ] = False,
    json: JSON = False,
    markdown: MARKDOWN = False,
    latex: LATEX = False,
) -> None:
    """Say which numbers of a study are doubtful, and what to do about it.

    Each doubt has its number, its threshold and the next step.
    """
    form = printing.form(json=json, markdown=markdown, latex=latex)
    from trio_profile.analysis.doubts import doubts
    from trio_profile.findings.doubts import report
    from trio_profile.findings.study_page import with_banner
    from trio_profile.records.store import Store

    contents = Store(directory).read()
    found = doubts(contents.study, contents.measurements, contents.dense, contents.sessions, contents.rounds)
    printing.warn(contents.dropped)

    def make_report() -> "Report":
        made = report(contents.study, contents.measurements, found)
        return with_banner(made, contents.study.model, contents.sessions)

    printing.show(form, lambda: _json(contents, found), make_report)
    if strict and found:
        raise typer.Exit(JUDGED_NO)


def _json(contents: "Contents", found: list["Doubt"]) -> str:
    return printing.listed(
        sessions=[session.model_dump(mode="json") for session in contents.sessions],
        environment=contents.environment.model_dump(),
        study=contents.study.model_dump(),
        doubts=[doubt.model_dump() for doubt in found],
    )
