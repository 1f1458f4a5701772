"""`trio-profile report`: write the page of a study again. It needs no torch."""

from pathlib import Path
from typing import Annotated

from trio_profile.cli import printing
from trio_profile.cli.common_options import DIRECTORY, Form, flag
from trio_profile.records.option import CLAIM

OUT = Annotated[Path | None, flag("--out", "Write the page to this file. Default: report.html of the directory.")]
CLAIMS = Annotated[
    str | None,
    flag(
        "--claims",
        "Show the figures of a claims file beside the measured ones: a file, or a name such as trio-2026.",
        panel=CLAIM,
    ),
]


def command(directory: DIRECTORY, out: OUT = None, claims: CLAIMS = None, *, form: Form) -> None:
    """Write the page of a study again, from its measurements or its document, and print the study."""
    from trio_profile.study import running

    printing.show_study(running.write_report_again(directory, out, claims), form, directory)
