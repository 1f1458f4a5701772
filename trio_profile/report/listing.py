"""Tables of what there is: methods, models, the self-check of model families, the environment.

The rows are plain data. Whoever makes them may import torch; these tables do not.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from trio_profile import units
from trio_profile.records.facts import MethodFacts, ModelFacts, TrialStep
from trio_profile.records.schema import Environment
from trio_profile.report.blocks import Block, Entry, Page, Report, Sentences, Terms, tabulate
from trio_profile.report.definitions import environment_terms, meanings

_PLACES = {
    "before the decoder": "encoder",
    "decoder layers": "decoder",
    "before the decoder, then decoder layers": "both",
}


def methods(rows: Sequence[MethodFacts]) -> Report:
    """The pruning methods: what each does, where it acts and on what, what it needs and costs, where it comes from."""
    does: dict[str, Callable[[MethodFacts], Entry]] = {
        "method": lambda row: Entry(row.name),
        "what it does": lambda row: Entry(row.summary, note=f"({row.remark})" if row.remark else ""),
    }
    facts: dict[str, Callable[[MethodFacts], Entry]] = {
        "method": lambda row: Entry(row.name),
        "acts at": lambda row: Entry(_PLACES.get(row.stage, row.stage), title=row.stage),
        "for": lambda row: Entry(row.media),
        "needs": lambda row: Entry(", ".join(row.needs) or "nothing"),
        "selection cost": lambda row: Entry(units.percent(row.selection_share)),
        "source": lambda row: Entry(_source(row.reference)),
    }
    cost = (
        "The selection cost is what the method declares; nothing is measured here. It is the work of all selections, "
        "as a share of one dense decoder layer. The size is LLaVA-1.5-7B's: 576 visual and 60 text tokens, a third of "
        "the visual ones kept."
    )
    blocks: list[Block] = [
        tabulate("What each method does", does, rows, prose=True),
        tabulate("Where it acts and on what, what it needs, what its selections cost", facts, rows),
        Sentences("", [cost]),
        Terms("What a method may need besides the hidden states", [*meanings("signals").items()]),
    ]
    how = (
        "A method acts at the encoder's output, after decoder layers, or at both. It is for pictures, videos, or both."
    )
    page = Page("methods", units.number_of(len(rows), "method"), how, blocks)
    return Report("Pruning methods", "trio_core", [], [page], preposition="of")


def _source(reference: dict[str, str]) -> str:
    """The paper of a method; without one its repository, or its title."""
    arxiv = reference["arxiv"]
    return f"arXiv {arxiv}" if arxiv else reference["repository"] or reference["title"] or "–"


def models(rows: Collection[ModelFacts]) -> Report:
    """The built-in models."""
    columns: dict[str, Callable[[ModelFacts], Entry]] = {
        "model": lambda row: Entry(row.name),
        "parameters": lambda row: Entry(units.count(row.parameters)),
        "visual tokens": lambda row: Entry(units.exact(row.visual_tokens)),
        "what it is": lambda row: Entry(row.description),
    }
    hint = "The directory of a checkpoint works as well, and so does a name on the Hugging Face hub."
    how = "These models need no download. Their weights are random unless the description says otherwise."
    blocks = [tabulate("", columns, rows), Sentences("", [hint])]
    page = Page("models", units.number_of(len(rows), "built-in model"), how, blocks)
    return Report("Models", "trio-profile", [], [page], preposition="of")


def checks(rows: Sequence[Mapping[str, Any]]) -> Report:
    """The result of the self-check of each family of models.

    rows: the family, its class, the attention, and the fields of `trio_core.engine.checking.Check`.
    """
    columns: dict[str, Callable[[Mapping[str, Any]], Entry]] = {
        "family": lambda row: Entry(row["family"]),
        "class": lambda row: Entry(row["class"].removesuffix("ForConditionalGeneration")),
        "attention": lambda row: Entry(row["attention"]),
        "identical at 1": lambda row: _yes(row["identical"]),
        "from autograd": lambda row: Entry("–" if row["difference"] is None else units.power(row["difference"])),
        "same kept": lambda row: _yes(row["same_kept"]),
        "decodes": lambda row: _yes(row["generates"]),
    }
    table = tabulate("Pruning on a small model of each family's class, random weights", columns, rows, keys=3)
    how = (
        "“identical at 1”: at retention 1 the logits are the dense model's, bit by bit. “from autograd”: the largest "
        "difference between the fast saliency and autograd's, relative to the largest score. “same kept”: both keep "
        "the same tokens. “decodes”: after pruning, decoding gives the logits of a longer prompt."
    )
    page = Page("checks", units.number_of(len(rows), "setup"), how, [table])
    return Report("Self-check", "the model families", [], [page], preposition="of")


def readiness(model: str, rows: Sequence[TrialStep]) -> Report:
    """The steps of the trial of one checkpoint, and whether it is ready."""
    columns: dict[str, Callable[[TrialStep], Entry]] = {
        "step": lambda row: Entry(row.name),
        "passed": lambda row: _yes(row.passed),
        "what was seen": lambda row: Entry(row.seen if row.passed else "see below"),
    }
    caption = "From the files of the checkpoint to a pruned answer, on a drawn picture or clip"
    table = tabulate(caption, columns, rows, prose=True)
    failed = [row for row in rows if not row.passed]
    verdict = f"not ready: {failed[0].name}: {failed[0].seen}" if failed else "ready"
    how = "A step that does not pass ends the trial."
    page = Page("steps", units.number_of(len(rows), "step"), how, [table, Sentences("", [verdict])])
    return Report("Check", model, [], [page], preposition="of")


def _yes(answer: bool | None) -> Entry:
    if answer is None:
        return Entry("–")
    return Entry("yes") if answer else Entry("NO", tone="loss")


def environment(where: Environment, tested: Mapping[str, bool]) -> Report:
    """The environment that is kept with every number, with sizes and names that people read.

    tested: the releases of transformers that pruning was tested on, each with whether it is the installed one. Empty
        without trio_core.
    """
    how = "Kept with every measurement. A study is continued only if the machine and the software are the same."
    terms = Terms("", [*environment_terms(where), *_tested(tested)])
    page = Page("environment", "What is kept with every number", how, [terms])
    return Report("Environment", where.hostname, [], [page], preposition="of")


def _tested(releases: Mapping[str, bool]) -> list[tuple[str, str]]:
    """The row on the releases of transformers that pruning was tested on."""
    if not releases:
        return []
    installed = "" if any(releases.values()) else "; not the installed one, so each model family is tried first"
    return [("pruning tested on", f"transformers {' and '.join(releases)}{installed}")]
