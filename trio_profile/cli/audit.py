"""`trio-profile audit`: a paper's printed claims, recomputed, and judged for consistency."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trio_profile.cli.options import Json, print_document

if TYPE_CHECKING:
    from trio_profile.audit.document import AuditDocument

AUDIT = "audit.json"
"""What `trio-profile audit --out` leaves beside its report."""


def command(
    claims: Annotated[
        str | None, typer.Argument(help="A claims file, or the name of one that ships with the package: trio-2026 …")
    ] = None,
    measured: Annotated[
        Path | None, typer.Option(help="A directory of `trio-profile sweep`: what it saw of the same settings.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="The GPU that the times are said to be of, where the file names none: a100 …")
    ] = None,
    new: Annotated[Path | None, typer.Option(help="Write a commented file to begin with, and stop.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 when figures contradict each other.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a table for an issue or a review.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print a table for a paper.")] = False,
    out: Annotated[Path | None, typer.Option(help="Directory for audit.json and report.html.")] = None,
    json: Json = False,
) -> None:
    """Recompute every printed figure of CLAIMS from the others, and say what holds and what does not."""
    from trio_profile.audit import document as audit
    from trio_profile.audit.claims import builtin
    from trio_profile.audit.reader import read
    from trio_profile.cli import audit_text

    if sum((json, markdown, latex)) > 1:
        raise typer.BadParameter("--json, --markdown and --latex are three forms of one document: name one")
    if new is not None:
        if claims is not None:
            raise typer.BadParameter(f"--new {new} writes a file to begin with: give it without CLAIMS")
        _write_template(new)
        return
    if claims is None:
        raise typer.BadParameter(f"name a claims file, or one of {', '.join(builtin())}; --new FILE writes one")
    asked = read(claims)
    document = audit.audit(asked, device)
    if measured is not None:
        document = _with_measured(document, claims, measured)
    if out is not None:
        document = keep_audit(document, out)
    if json:
        print_document(document.model_dump_json(indent=2))
    elif markdown or latex:
        print_document((audit_text.markdown if markdown else audit_text.latex)(document))
    else:
        audit_text.show(document)
    if strict and document.inconsistent:
        raise typer.Exit(1)


def keep_audit(document: "AuditDocument", directory: Path) -> "AuditDocument":
    """Keep a document as audit.json, write its report beside it, and say in it where that is."""
    from trio_profile.findings import audit as page
    from trio_profile.records.store import keep, make_directory
    from trio_profile.render import write

    make_directory(directory)
    keep(directory / AUDIT, document.model_copy(update={"report": None}))
    return document.model_copy(update={"report": str(write(page.report(document), directory))})


def publish_audit(directory: Path, *, as_json: bool) -> None:
    """Rebuild the report of a kept audit, and print it."""
    from trio_profile.audit.document import AuditDocument
    from trio_profile.cli import audit_text
    from trio_profile.records.store import kept

    document = keep_audit(kept(directory / AUDIT, AuditDocument), directory)
    if as_json:
        print_document(document.model_dump_json(indent=2))
    else:
        audit_text.show(document)


def _with_measured(document: "AuditDocument", claims: str, directory: Path) -> "AuditDocument":
    from trio_profile.analysis.sweep import summarise
    from trio_profile.audit import document as audit
    from trio_profile.audit.reader import read
    from trio_profile.cli import tables
    from trio_profile.records.store import Store

    contents = Store(directory).read()
    study = summarise(contents.study, contents.environment, contents.dense, contents.measurements)
    found = audit.with_measured(document, read(claims), study)
    tables.warn(contents.dropped)
    if not any(finding.measured for finding in found.claims):
        tables.warn(
            [
                f"{directory} is a study of {study.study.model}, and saw no setting for which {document.name} claims a "
                "ratio: the same model, method and retention"
            ]
        )
    return found


def _write_template(path: Path) -> None:
    from trio_profile.audit.claims import TEMPLATE
    from trio_profile.audit.source import exists
    from trio_profile.errors import StoreError
    from trio_profile.records.store import write_whole

    if exists(path):
        raise StoreError(f"{path} is there already; choose another name for --new")
    write_whole(path, TEMPLATE.read_text(encoding="utf-8"))
    print_document(f"{path}: fill it in, then `trio-profile audit {path}`")
