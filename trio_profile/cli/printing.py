"""Print the result of a verb: one document on standard output, drawn for people or as data."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trio_profile.cli.common_options import Form
from trio_profile.text import one_line, printable, printable_json

if TYPE_CHECKING:
    from trio_profile.report.blocks import Report
    from trio_profile.study.running import Finished


def show(
    form: Form,
    json: Callable[[], str],
    report: Callable[[], "Report"],
    *,
    everything: bool = False,
    hint: str = "--markdown prints every table.",
) -> None:
    """Print a document in one form.

    json, report: make the JSON text and the report; only the one that the form needs is called.
    everything: the terminal shows detailed tables too.
    hint: what the terminal says where it leaves out detailed tables.
    """
    if form == "json":
        sys.stdout.write(printable_json(json(), sys.stdout.encoding or "utf-8") + "\n")
    elif form == "terminal":
        from trio_profile.report import terminal

        terminal.show(report(), everything=everything, hint=hint)
    elif form == "markdown":
        from trio_profile.report.markdown import markdown

        write(markdown(report()))
    else:
        from trio_profile.report.latex import latex

        write(latex(report()))


def show_study(
    finished: "Finished",
    form: Form,
    directory: Path | None,
    *,
    everything: bool = False,
    **display: Any,
) -> None:
    """Print the warnings of a study, and the study in one form.

    directory: where it is kept; None if it is not kept.
    display: how the report is drawn, such as unit="flops" for the kind `flops`.
    """
    from trio_profile.study import running

    warn(finished.warnings)
    show(
        form,
        lambda: finished.document.model_dump_json(indent=2),
        lambda: running.findings(finished, **display),
        everything=everything,
        hint=f"trio-profile show {directory} --all prints every table."
        if directory
        else "--out DIR keeps the study; --markdown prints every table.",
    )
    if form == "terminal" and finished.document.report:
        write(f"\nreport: {finished.document.report}")


def listed(**parts: Any) -> str:
    """A document that is no study's, as JSON: its format, its version, and these parts."""
    import json

    from trio_profile.records.schema import FORMAT, VERSION

    return json.dumps({"format": FORMAT, "version": VERSION, **parts}, indent=2)


def write(text: str) -> None:
    """Printable text on standard output, with one line end after it."""
    sys.stdout.write(printable(text).rstrip("\n") + "\n")


def warn(lines: Iterable[str]) -> None:
    """Warnings on standard error, one a line."""
    for line in lines:
        print(f"trio-profile: warning: {one_line(line)}", file=sys.stderr)
