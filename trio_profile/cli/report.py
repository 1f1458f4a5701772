"""`trio-profile report`: rebuild report.html from what a directory holds, on any machine, without torch."""

from trio_profile.cli import printing
from trio_profile.cli.options import DIRECTORY, JSON, LATEX, MARKDOWN


def command(directory: DIRECTORY, json: JSON = False, markdown: MARKDOWN = False, latex: LATEX = False) -> None:
    """Write report.html of a directory again, from its measurements or its document, and print the study."""
    form = printing.form(json=json, markdown=markdown, latex=latex)
    from trio_profile.studies import running

    found = running.write_report_again(directory)
    printing.warn(found.warnings)
    printing.show_study(found, form, directory)
