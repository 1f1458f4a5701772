"""PACT: its two rules by hand and against loops over the card, and inside real models against their own quantities."""

import math

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.methods import towers
from tests.core.models.test_families import listening
from tests.core.rules.drawn import at_angles
from trio_core import prune
from trio_core.methods.pact import Pact, dbdpc, importance
from trio_core.models import adapter_for

AFTER = 4


# --- importance, by hand ---------------------------------------------------------------------------------------------


def test_importance_by_hand():
    """The card's: the mean query is (2/3, 2/3), the softmax .2776, .2776, .4448, the norms 1, 3, 1."""
    keys = torch.tensor([(1.0, 0), (0, 1), (1, 1)])[:, None]
    hidden = torch.tensor([(1.0, 0, 0), (1, -2, 2), (0, 0, 1)])
    scores = importance(keys, keys, hidden, torch.ones(3, dtype=torch.bool))
    assert scores.tolist() == pytest.approx([0.2776, 3 * 0.2776, 0.4448], abs=1e-4)
    assert int(0.55 * 3) == 1 and scores.argmax() == 1


# --- clustering, by hand ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "centres", "labels"),
    [(1, [3], [0, 0, 0, 0, 0, 0]), (2, [3, 5], [0, 0, 0, 0, 0, 1]), (3, [2, 3, 5], [0, 0, 0, 1, 1, 2])],
)
def test_centres_by_hand(budget, centres, labels):
    """Densities are 4.854, 4.995, 5.130, 5.298, 5.174, 3.754; to a denser one it is .0152, .0152, .658 from 20° to 90°,
    –, .0152, .826 from 180° to 100°."""
    kept, joined = dbdpc(at_angles([0, 10, 20, 90, 100, 180]), torch.arange(6), budget)
    assert (kept.tolist(), joined.tolist()) == (centres, labels)


def test_dropped_tokens_are_recovered_within_one_and_a_half_cutoffs():
    """Of the survivors at 0°, 90°, −30° and −90° all but −30° are centres: the cutoff is 1 − cos 30° = .134, and half
    as much again is 1 − cos 36.96°."""
    keys = at_angles([0, 36, -36, 38, 90, -30, 127.2, 126.5, 60, -90])
    centres, labels = dbdpc(keys, torch.tensor([0, 4, 5, 9]), 3)
    assert centres.tolist() == [0, 4, 9]
    assert labels.tolist() == [0, 0, 0, -1, 1, 0, -1, 1, 1, 2]


# --- against loops ---------------------------------------------------------------------------------------------------


def far(one: Tensor, other: Tensor) -> float:
    """1 − cosine, at least 0."""
    dot, lengths = float(one @ other), float(one @ one) ** 0.5 * float(other @ other) ** 0.5
    return max(0.0, 1 - dot / lengths)


def by_the_card(keys: Tensor, survivors: list[int], budget: int) -> tuple[list[int], list[int]]:
    """Centres, and each token's centre's number, token by token."""
    keys = keys.double()
    distance = {(i, j): 0.0 if i == j else far(keys[i], keys[j]) for i in survivors for j in survivors}
    density = {i: sum(math.exp(-((distance[i, j] / 2) ** 2)) for j in survivors) for i in survivors}
    denser = sorted(survivors, key=lambda i: -density[i])
    apart = {i: min((distance[i, j] for j in denser[: denser.index(i)]), default=math.inf) for i in survivors}
    ranked = sorted(survivors, key=lambda i: -apart[i])
    centres, cutoff = sorted(ranked[:budget]), apart[ranked[budget]] if budget < len(survivors) else 0.0
    labels = []
    for token in range(len(keys)):
        near = [far(keys[token], keys[centre]) for centre in centres]
        best = min(range(budget), key=near.__getitem__)
        if token in centres:
            best = centres.index(token)
        elif token not in survivors and near[best] > 1.5 * cutoff:
            best = -1
        labels.append(best)
    return centres, labels


def euti(query: Tensor, keys: Tensor, hidden: Tensor) -> list[float]:
    """The card's score, head by head: query [P, H, E], keys [P, N, E], hidden [P, D]."""
    heads, per_key = query.shape[1], query.shape[1] // keys.shape[1]
    weights = [0.0] * len(query)
    for h in range(heads):
        mean = [sum(float(q[h, e]) for q in query) / len(query) for e in range(query.shape[2])]
        powers = [
            math.exp(sum(a * float(b) for a, b in zip(mean, k[h // per_key], strict=True)) / len(mean) ** 0.5)
            for k in keys
        ]
        weights = [w + p / sum(powers) / heads for w, p in zip(weights, powers, strict=True)]
    return [w * sum(float(x) ** 2 for x in row) ** 0.5 for w, row in zip(weights, hidden, strict=True)]


# --- inside real models ----------------------------------------------------------------------------------------------


def expected(
    model: PreTrainedModel, one: dict[str, Tensor], budget: int, share: float = 0.55
) -> tuple[list[int], Tensor]:
    """What stays and [K, D] its means, by what the dense model's own layer projects and its cache holds."""
    attention = adapter_for(model).layers[AFTER].get_submodule("self_attn")
    with towers.outputs(towers.projections(attention)) as seen, torch.no_grad(), listening(model) as calls:
        cache = model(**one, use_cache=True)[tiny.CACHE]
    hidden, visual = calls[0][AFTER][0][0], tiny.visual_rows(one)
    until = int(visual[-1]) + 1
    query, keys = (seen[name][0].reshape(len(hidden), -1, attention.head_dim).double()[:until] for name in "qk")
    scores = torch.tensor(euti(query, keys, hidden[:until].double()))[visual]
    survivors = sorted(range(len(visual)), key=lambda i: -scores[i])[: max(int(share * len(visual)), budget)]
    rotated = cache.layers[AFTER].keys[0].transpose(0, 1).flatten(1)[visual]
    centres, labels = by_the_card(rotated, sorted(survivors), budget)
    members = [[token for token, label in enumerate(labels) if label == number] for number in range(budget)]
    return centres, torch.stack([hidden[visual[rows]].double().mean(dim=0).float() for rows in members])


@pytest.mark.parametrize("side", tiny.fast_first(["left", "right"], "right"))
@tiny.cached
def test_it_is_the_card_in_a_padded_batch_and_the_next_layer_receives_the_means(family, side):
    """Under the default kernel, against the eager model."""
    model, samples, method = tiny.model(family), tiny.pair(family), Pact(retention=0.8, layers=(AFTER,))
    inputs = tiny.batch(samples, side)
    with torch.inference_mode(), prune(model, method) as trace, listening(model) as calls:
        model(**inputs, use_cache=False)
    (stage,) = trace.stages
    assert stage.layer == AFTER
    entered = calls[0][AFTER][0]
    for b, one in enumerate(samples):
        budget = trace.schedules[b].budgets[0]
        kept, means = expected(tiny.model(family, "eager"), one, budget)
        assert stage.kept[b].tolist() == kept
        assert stage.scores[b].isfinite().all()
        towers.check_entered(model, one, AFTER, dict(zip(kept, means, strict=True)), entered[b])
