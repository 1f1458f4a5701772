"""`trio-profile report`: write the page of a study again, or one page of several studies. It needs no torch."""

from pathlib import Path
from typing import Annotated

import typer

from trio_profile.cli import printing
from trio_profile.cli.common_options import LOG, Form, flag
from trio_profile.records.option import CLAIM

DIRECTORIES = Annotated[
    list[Path],
    typer.Argument(
        metavar="DIRECTORY...", help="A directory that holds a study (--out). Two or more: their studies side by side."
    ),
]
OUT = Annotated[
    Path | None,
    flag(
        "--out",
        "Write the page to this file. Default: report.html of the directory; of several studies report-A-B.html "
        "in the working directory.",
    ),
]
CLAIMS = Annotated[
    str | None,
    flag(
        "--claims",
        "Show the figures of a claims file beside the measured ones: a file, or a name such as trio-2026.",
        panel=CLAIM,
    ),
]


def command(
    directories: DIRECTORIES,
    out: OUT = None,
    claims: CLAIMS = None,
    log: LOG = None,
    *,
    form: Form,
) -> None:
    """Write the page of a study again, from its measurements or its document, and print the study.

    With two or more directories: one page with their studies side by side, and what is unlike on top.
    """
    if len(directories) > 1:
        if claims is not None or log is not None:
            raise typer.BadParameter("--claims and --log go with one study: name one directory")
        _several(directories, out, form)
        return
    from trio_profile.studies import running

    if log is not None:
        from trio_profile.studies import logs

        running.read(directories[0])  # a directory without a study is refused before a server is asked
        logs.find(log).require()
    finished = running.write_report_again(directories[0], out, claims)
    printing.show_study(finished, form, directories[0], log)


def _several(directories: list[Path], out: Path | None, form: Form) -> None:
    """Write and print the page of several studies."""
    from trio_profile.findings.side_by_side import report
    from trio_profile.studies import running

    document, warnings = running.write_side_by_side(directories, out)
    printing.warn(warnings)
    printing.show(form, lambda: document.model_dump_json(indent=2), lambda: report(document))
    if form == "terminal":
        printing.write(f"\nreport: {document.report}")
