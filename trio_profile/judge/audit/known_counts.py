"""How many visual tokens the built-in claims count for a decoder."""

from collections.abc import Iterator

from trio_profile.judge.audit.claims import Claims, Model, builtin
from trio_profile.judge.audit.facts import Facts
from trio_profile.judge.audit.reader import read
from trio_profile.records.schema import Shape
from trio_profile.text import listed


def known_counts(shape: Shape) -> dict[int, list[str]]:
    """The numbers of visual tokens in print for decoders of these sizes, each with who counts so.

    A number is the paper's own, or the average that its dense KV cache has room for.
    """
    names: dict[tuple[int, str], list[str]] = {}
    for claims in map(read, builtin()):
        for key in dict.fromkeys((*_stated(claims, shape), *_cached(claims, shape))):
            names.setdefault(key, []).append(claims.name)
    found: dict[int, list[str]] = {}
    for (tokens, what), papers in names.items():
        found.setdefault(tokens, []).append(f"{what} in {listed(papers)}")
    return found


def _stated(claims: Claims, shape: Shape) -> Iterator[tuple[int, str]]:
    """The number that a paper states for each model of these sizes."""
    return ((model.visual_tokens, name) for name, model in claims.models.items() if _same_decoder(model, shape))


def _cached(claims: Claims, shape: Shape) -> Iterator[tuple[int, str]]:
    """The average that a dense cache has room for, where it is not the stated number."""
    facts = Facts.of(claims)
    for table, row in claims.rows():
        model = facts.model(row)
        if row.method is not None or model is None or not _same_decoder(model, shape):
            continue
        entered = facts.entered(table, row)
        if entered is not None and round(entered[1]) != model.visual_tokens:
            yield round(entered[1]), f"the average in the dense cache of {row.model}"


def _same_decoder(model: Model, shape: Shape) -> bool:
    sizes = (model.layers, model.hidden, model.intermediate)
    return sizes == (shape.num_layers, shape.hidden, shape.intermediate)
