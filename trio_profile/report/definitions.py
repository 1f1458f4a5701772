"""The words of this project, and how the numbers are defined: one meaning for each name, in reports and in the JSON.

The words stand in `data/glossary.yaml`. Reports and docs/glossary.md take the meanings from there. What a report says
beyond them stands in `data/definitions.yaml`. The words of one page stand in `data/meanings.yaml`.
"""

from functools import cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from trio_profile import units
from trio_profile.records.schema import Environment
from trio_profile.report.blocks import Page, Terms

DATA = Path(__file__).parent.parent / "data"
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
    def spellings(self) -> tuple[str, ...]:
        """The term and its other spellings, each also as a plural."""
        return tuple(form for text in (self.term, *self.also) for form in (text, _plural(text)))


@cache
def terms() -> tuple[Term, ...]:
    """Every term, in alphabetical order."""
    return TypeAdapter(tuple[Term, ...]).validate_python(read_yaml("glossary.yaml"))


@cache
def by_spelling() -> dict[str, Term]:
    """Every term by each of its spellings."""
    return {text: term for term in terms() for text in term.spellings}


def definitions() -> dict[str, str]:
    """The terms of a report in its order, each with its meaning and what the report says beyond that."""
    further: dict[str, str] = read_yaml("definitions.yaml")
    return {name: f"{by_spelling()[name].meaning} {more}".rstrip() for name, more in further.items()}


@cache
def meanings(section: str) -> dict[str, str]:
    """The words of a section of `data/meanings.yaml`, such as `theory`, each with its meaning."""
    return read_yaml("meanings.yaml")[section]


def read_yaml(name: str) -> Any:
    """Return the content of a file of `trio_profile/data`."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load((DATA / name).read_text(encoding="utf-8"), loader)


def _plural(text: str) -> str:
    return f"{text[:-1]}ies" if text.endswith("y") else f"{text}s"


def numbers_page() -> Page:
    """How the numbers of sweeps, comparisons and ablations are defined."""
    heads = {text: term.meaning for text, term in by_spelling().items()}
    return Page(
        "numbers",
        "How the numbers are defined",
        "A name has the same meaning in this report and in the JSON that this file holds. "
        "If no answers are known, this page does not say whether they stay right: a pruned model "
        "that is faster may still be wrong.",
        [Terms("", list(definitions().items()), heads=heads, detail=True)],
        folded="Show what the words mean",
    )


def environment_terms(where: Environment) -> list[tuple[str, str]]:
    """The machine, the device and the software that are kept with every number."""
    items = [
        ("device", where.device_name if where.cpu_threads else "unknown without the extra run"),
        ("device memory", units.size(where.device_memory_bytes) if where.device_memory_bytes else None),
        ("CUDA, driver", ", ".join(part for part in (where.cuda, where.driver) if part)),
        ("attention kernels", where.sdpa),
        ("settings of CUDA", ", ".join(map(" ".join, (where.cuda_settings or {}).items()))),
        ("processor", f"{where.cpu}, {where.cpu_threads} threads" if where.cpu_threads else where.cpu),
        ("waiting threads", meanings("waiting threads").get(where.wait_policy, where.wait_policy)),
        ("freed memory", meanings("freed memory").get(where.allocator, where.allocator)),
        ("memory", units.size(where.memory_bytes) if where.memory_bytes else None),
        ("system", where.system),
        *((name, getattr(where, name)) for name in ("python", "torch", "transformers", "fvcore")),
        ("host", where.hostname),
        ("commit", where.commit),
    ]
    return [(term, text) for term, text in items if text]
