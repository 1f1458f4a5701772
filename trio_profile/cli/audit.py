"""`trio-profile audit`: a paper's printed claims, recomputed, and judged for consistency."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trio_profile.cli import printing, study_verbs
from trio_profile.cli.common_options import flag, keyword
from trio_profile.cli.exits import JUDGED_NO
from trio_profile.records.option import CLAIM
from trio_profile.study.kinds import KINDS

if TYPE_CHECKING:
    from trio_profile.kinds.audit.document import AuditDocument

NEW = Annotated[Path | None, flag("--new", "Write a commented example of a claims file, and stop.", panel=CLAIM)]
STRICT = Annotated[bool, flag("--strict", "Exit with 1 when figures contradict each other.")]


def _audit(new: Path | None, strict: bool, **values: Any) -> None:
    if new is not None:
        _write_template(new, values)
        return
    document: AuditDocument | None = study_verbs.run(KINDS["audit"], values)
    if strict and document is not None and document.inconsistent:
        raise typer.Exit(JUDGED_NO)


command = study_verbs.described(_audit, KINDS["audit"], (keyword("new", NEW), keyword("strict", STRICT, False)))


def _write_template(path: Path, values: dict[str, Any]) -> None:
    """Write a commented claims file. Raises BadParameter beside CLAIMS, StoreError for a file that exists."""
    from trio_profile.errors import StoreError
    from trio_profile.inputs.claims.claims import TEMPLATE
    from trio_profile.records.writing import write_whole
    from trio_profile.records.yaml_source import exists

    if values["claims"] is not None:
        raise typer.BadParameter(f"--new {path} writes an example file: give it without CLAIMS")
    if exists(path):
        raise StoreError(f"{path} exists already; choose another name for --new")
    write_whole(path, TEMPLATE.read_text(encoding="utf-8"))
    printing.write(f"{path}: fill it in, then run `trio-profile audit {path}`")
