"""The words of this project, one meaning each: `data/glossary.yaml` as records.

Help texts, reports and docs/glossary.md take the meanings from here.
"""

from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from trio_profile.errors import GlossaryError

SOURCE = Path(__file__).parent / "data" / "glossary.yaml"
LONGEST_MEANING = 300
"""A meaning has at most this many characters."""
Texts = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)]
"""Texts, written as a list."""


class Term(BaseModel):
    """One word and its meaning.

    term: the word, as texts write it.
    meaning: one or two plain sentences.
    unit: of its value, such as `ms`; empty if it has none.
    also: other spellings, such as a symbol or a name in the JSON.
    see: related terms.
    page: the page of `docs` that explains it, such as `explanation/flops.md`; empty if none does.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    term: Annotated[str, Field(min_length=1)]
    meaning: Annotated[str, Field(min_length=1, max_length=LONGEST_MEANING)]
    unit: str = ""
    also: Texts = ()
    see: Texts = ()
    page: str = ""

    @property
    def anchor(self) -> str:
        """Its anchor in docs/glossary.md: `KV cache` → `kv-cache`."""
        return self.term.casefold().replace(" ", "-").replace("_", "-")

    @property
    def spellings(self) -> tuple[str, ...]:
        """The term and its other spellings, each also as a plural."""
        return tuple(form for text in (self.term, *self.also) for form in (text, _plural(text)))


@cache
def terms() -> tuple[Term, ...]:
    """Every term, in alphabetical order."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return TypeAdapter(tuple[Term, ...]).validate_python(yaml.load(SOURCE.read_text(encoding="utf-8"), loader))


@cache
def by_key() -> dict[str, Term]:
    """Every term by the key of each of its spellings."""
    return {key(text): term for term in terms() for text in term.spellings}


def key(text: str) -> str:
    """The common form of the spellings of one word: `Break even` and `break-even` are both `break even`."""
    return " ".join(text.casefold().replace("-", " ").replace("_", " ").split())


def find(name: str) -> Term:
    """The term of this name, in any spelling. Raises GlossaryError, with the nearest term, if there is none."""
    known, wanted = by_key(), key(name)
    if wanted in known:
        return known[wanted]
    nearest = get_close_matches(wanted, known, n=1, cutoff=0.5)
    hint = f"did you mean {known[nearest[0]].term!r}?" if nearest else "`trio-profile glossary` lists all terms"
    raise GlossaryError(f"no term is called {name!r}; {hint}")


def neighbours(term: Term) -> list[Term]:
    """The terms that a term names as related, in its order."""
    return [find(name) for name in term.see]


def _plural(text: str) -> str:
    return f"{text[:-1]}ies" if text.endswith("y") else f"{text}s"
