"""The words of this project, and how the numbers are defined: one meaning for each name, in reports and in the JSON.

The words stand in `data/glossary.yaml`. Reports and docs/glossary.md take the meanings from there.
"""

from functools import cache
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from trio_profile import units
from trio_profile.records.schema import Environment
from trio_profile.report.blocks import Page, Terms

SOURCE = Path(__file__).parent.parent / "data" / "glossary.yaml"
LONGEST_MEANING = 300
"""A meaning has at most this many characters."""
Texts = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)]
"""Texts, written as a list."""


WAIT_POLICIES = {
    "brief": "spin for a moment, then sleep (OMP_WAIT_POLICY=PASSIVE, GOMP_SPINCOUNT=2000)",
    "passive": "sleep at once (OMP_WAIT_POLICY=PASSIVE)",
    "active": "spin: on a busy machine they take the CPU from the thread that they wait for",
    "one thread": "none, there is one thread",
}
"""The action of threads that wait, by `Environment.wait_policy`."""
ALLOCATORS = {
    "keeps memory": "kept by the process, so that no prefill fetches its pages again",
    "returns memory": "returned to the system: each prefill fetches some pages again",
    "system": "left to the system's allocator",
}
"""The fate of freed memory, by `Environment.allocator`. Other values are names of allocators."""

DEFINITIONS = {
    "retention": "Budgets are whole tokens, so the realised retention can differ from the nominal one. The charts show "
    "the realised one.",
    "paired ratio": "",
    "speed-up": "A round runs every cell once and the dense model several times, in a random order. Timing ends when "
    "every interval is as narrow as asked (converged), or when the time is spent (budget).",
    "interval": "It follows from the spread between processes, which cells with similar spreads share. On a CPU it "
    "allows for the state of the machine too, which all processes of a study have in common. With one process, groups "
    "of neighbouring rounds stand for processes, and another run may differ by more. The interval of a median of "
    "single times, such as the milliseconds of selection, is made in the same way.",
    "break-even": "Retentions are tested one after another, from the lowest up for a gain and from the highest down "
    "for a loss, until a test fails. So the certain gain and the certain loss hold at 95 % for all retentions at once. "
    "The point is where fitted ratios, which never fall, cross 1. For counts it is the exact crossing.",
    "prefill": "",
    "total": "",
    "CPU time": "Other processes that take the CPU hardly change it, so its ratio is steadier on a busy machine.",
    "fastv_macs": "",
    "counted_macs": "",
    "selection": "",
    "gamma": "The paper's appendix has γ = 1 + β, where β is the work of a backward pass, and prints no value. So γ = "
    "1 is a backward pass that costs nothing, and a factor below 1 is no γ of the paper.",
    "KV cache": "The prediction is tokens in each layer × 2 × the width of the keys × the bytes of one number.",
}
"""The text of a report on a term, after its meaning in the glossary."""


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
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return TypeAdapter(tuple[Term, ...]).validate_python(yaml.load(SOURCE.read_text(encoding="utf-8"), loader))


@cache
def by_spelling() -> dict[str, Term]:
    """Every term by each of its spellings."""
    return {text: term for term in terms() for text in term.spellings}


def _plural(text: str) -> str:
    return f"{text[:-1]}ies" if text.endswith("y") else f"{text}s"


def numbers_page() -> Page:
    """How the numbers of sweeps, comparisons and ablations are defined."""
    items = [(name, f"{by_spelling()[name].meaning} {more}".rstrip()) for name, more in DEFINITIONS.items()]
    heads = {text: term.meaning for text, term in by_spelling().items()}
    return Page(
        "numbers",
        "How the numbers are defined",
        "A name has the same meaning in this report and in the JSON that this file holds. "
        "If no answers are known, this page does not say whether they stay right: a pruned model "
        "that is faster may still be wrong.",
        [Terms("", items, heads=heads, detail=True)],
        folded="Show what the words mean",
    )


def environment_terms(where: Environment) -> list[tuple[str, str]]:
    """The machine, the device and the software that are kept with every number."""
    items = [
        ("device", where.device_name if where.cpu_threads else "unknown without the extra run"),
        ("device memory", units.size(where.device_memory_bytes) if where.device_memory_bytes else None),
        ("CUDA, driver", ", ".join(part for part in (where.cuda, where.driver) if part)),
        ("attention kernels", where.sdpa),
        ("processor", f"{where.cpu}, {where.cpu_threads} threads" if where.cpu_threads else where.cpu),
        ("waiting threads", WAIT_POLICIES.get(where.wait_policy, where.wait_policy)),
        ("freed memory", ALLOCATORS.get(where.allocator, where.allocator)),
        ("memory", units.size(where.memory_bytes) if where.memory_bytes else None),
        ("system", where.system),
        *((name, getattr(where, name)) for name in ("python", "torch", "transformers", "fvcore")),
        ("host", where.hostname),
        ("commit", where.commit),
    ]
    return [(term, text) for term, text in items if text]
