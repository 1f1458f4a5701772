"""`trio-profile glossary`: the words of this project, one meaning each."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trio_profile.cli import printing
from trio_profile.cli.common_options import JSON, LATEX, MARKDOWN

if TYPE_CHECKING:
    from trio_profile.glossary import Term


def command(
    term: Annotated[
        list[str] | None, typer.Argument(metavar="TERM", help="Explain this word, and those that it is related to.")
    ] = None,
    json: JSON = False,
    markdown: MARKDOWN = False,
    latex: LATEX = False,
) -> None:
    """Explain the words of the help, the reports and the documentation: all of them, or one."""
    form = printing.form(json=json, markdown=markdown, latex=latex)
    from trio_profile import glossary
    from trio_profile.findings.glossary import all_terms, one_term

    asked = glossary.find(" ".join(term)) if term else None
    shown = glossary.terms() if asked is None else (asked, *glossary.neighbours(asked))
    printing.show(
        form,
        lambda: printing.listed(terms=[_document(one) for one in shown]),
        lambda: all_terms(shown) if asked is None else one_term(asked),
    )


def _document(term: "Term") -> dict[str, Any]:
    return {**term.model_dump(mode="json"), "anchor": term.anchor}
