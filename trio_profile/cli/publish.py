"""What every verb that has measurements ends with: the report written, the document printed."""

from pathlib import Path

from trio_profile.analysis.summary import summarise
from trio_profile.cli import tables
from trio_profile.cli.options import print_document
from trio_profile.report import sweep, write
from trio_profile.store import Contents


def publish(contents: Contents, directory: Path, *, as_json: bool) -> None:
    """Write the report of what a store holds; print its document, as JSON or as tables, and what was dropped."""
    document = summarise(contents.study, contents.environment, contents.dense, contents.measurements)
    # The report embeds the document without this path, which means nothing on another machine.
    document = document.model_copy(update={"report": str(write(sweep.report(document), directory))})
    tables.warn(contents.dropped)
    if as_json:
        print_document(document.model_dump_json(indent=2))
    else:
        tables.print_document(document)
