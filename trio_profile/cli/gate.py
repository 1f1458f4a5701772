"""`trio-profile gate`: has anything become worse between two studies, or two pytest-benchmark files?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trio_profile.cli import printing
from trio_profile.cli.common_options import JSON, LATEX, MARKDOWN, flag
from trio_profile.cli.exits import JUDGED_NO

if TYPE_CHECKING:
    from trio_profile.gate.evidence import Subject

JUDGEMENT = "Judgement"
"""Panel of the help."""


def command(
    base: Annotated[
        Path, typer.Argument(metavar="BASE", help="The old side: a study's directory, or a pytest-benchmark JSON.")
    ],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The new side: the same sort of directory or file.")],
    max_ratio: Annotated[
        float,
        typer.Option(
            help="The largest allowed ratio new / base of a timed quantity. Default: 1.03.",
            show_default=False,
            rich_help_panel=JUDGEMENT,
        ),
    ] = 1.03,
    quantity: Annotated[
        list[str] | None,
        typer.Option(help="Judge this quantity only. Repeat it for several. Default: all.", rich_help_panel=JUDGEMENT),
    ] = None,
    allow_other_environment: Annotated[
        bool,
        flag(
            "--allow-other-environment", "Also compare sides that were measured on different machines.", panel=JUDGEMENT
        ),
    ] = False,
    json: JSON = False,
    markdown: MARKDOWN = False,
    latex: LATEX = False,
) -> None:
    """Judge what became worse between two studies, or two pytest-benchmark files.

    Exits with 1 if a quantity regressed, and with 2 if no verdict is possible.
    """
    form = printing.form(json=json, markdown=markdown, latex=latex)
    from trio_profile.analysis.gate import GateDocument
    from trio_profile.findings.gate import report
    from trio_profile.gate.evidence import compare
    from trio_profile.gate.verdict import failures

    before, after = _read(base), _read(new)
    verdicts = compare(
        before, after, max_ratio=max_ratio, quantities=tuple(quantity or ()), other_environment=allow_other_environment
    )
    printing.warn(f"{where} failed in {base} and is not compared" for where in before.failed)
    document = GateDocument(
        sessions=after.sessions,
        environment=after.environment,
        study=after.study,
        verdicts=tuple(verdicts),
    )
    printing.show(form, lambda: document.model_dump_json(indent=2), lambda: report(document))
    if failures(verdicts):
        raise typer.Exit(JUDGED_NO)


def _read(path: Path) -> "Subject":
    """A study or a pytest-benchmark file. Raises StoreError for a path that is neither."""
    from trio_profile.errors import StoreError
    from trio_profile.gate.evidence import of_benchmarks, of_study
    from trio_profile.reading import read_bytes
    from trio_profile.records.files import MEASUREMENTS
    from trio_profile.records.store import Store

    if path.name == MEASUREMENTS:
        path = path.parent
    if path.is_dir():
        return of_study(Store(path).read(), str(path))
    try:
        return of_benchmarks(read_bytes(path), str(path))
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {error.strerror}; name a study's directory or a pytest-benchmark JSON"
        ) from error
