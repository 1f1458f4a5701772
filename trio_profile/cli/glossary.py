"""`trio-profile glossary`: the words of this project, one meaning each."""

from typing import Annotated

import typer

from trio_profile.cli import printing
from trio_profile.cli.common_options import Form


def command(
    term: Annotated[
        list[str] | None, typer.Argument(metavar="TERM", help="Explain this word, and those that it is related to.")
    ] = None,
    *,
    form: Form,
) -> None:
    """Explain the words of the help, the reports and the documentation: all of them, or one."""
    from trio_profile import glossary
    from trio_profile.findings.glossary import all_terms, one_term

    word = glossary.find(" ".join(term)) if term else None
    terms = glossary.terms() if word is None else (word, *glossary.neighbours(word))
    printing.show(
        form,
        lambda: printing.listed(terms=[{**each.model_dump(mode="json"), "anchor": each.anchor} for each in terms]),
        lambda: all_terms(terms) if word is None else one_term(word),
    )
