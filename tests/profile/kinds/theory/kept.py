"""A document of the theory, made by hand, and a kept study of the kind."""

from collections.abc import Sequence

import numpy as np

from tests.profile import examples
from trio_profile.kinds.theory import document
from trio_profile.kinds.theory.document import Removal, TheoryDocument
from trio_profile.records.documents import write_document
from trio_profile.records.schema import Study


def removal(question: int, kept: int, bound: float, norms: float, kl: float, layer: int = 1) -> Removal:
    """One removal of tokens at random after a layer."""
    return Removal(question=question, layer=layer, selection="random", kept=kept, bound=bound, norms=norms, kl_nats=kl)


def theory_document(names: Sequence[str] = ("",) * 10, tokens: int = 20) -> TheoryDocument:
    """One stage and four layers, over ten questions with numbers drawn at random.

    names: the benchmark of each question. tokens: how many visual tokens the last question has.
    """
    draw = np.random.default_rng(3)
    count = len(names)
    removals = [removal(q, kept, *draw.random(3)) for q in range(count) for kept in (5, 9) for _ in range(4)]
    visual_tokens = [20] * (count - 1) + [tokens]
    saliency = [draw.random((4, own)) for own in visual_tokens]
    return TheoryDocument(
        environment=examples.environment(),
        study=Study(verb="theory"),
        questions=count,
        planned=count,
        visual_tokens=20,
        visual_tokens_range=(20, tokens),
        probe="next",
        rows="last",
        k_pos=4,
        stages=(document.stage(1, removals),),
        layers=document.by_depth(saliency, saliency, names=names),
        agreement_trend=document.agreement_trend(saliency, saliency),
        benchmarks=document.benchmarks(names, visual_tokens),
    )


KEPT = {"theory": lambda directory: write_document(directory / "theory.json", theory_document())}
