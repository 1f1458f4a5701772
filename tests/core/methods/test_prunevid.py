"""PruneVid: its rules by hand and against loops over the card, and inside real models, before and in the decoder."""

import math

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.methods import towers
from tests.core.models.test_families import dense_layers, listening, stages_of
from tests.core.rules.drawn import wave
from trio_core import prune
from trio_core.methods.prunevid import PruneVid, steady_runs, text_attention, top_of_each_frame
from trio_core.models import adapter_for
from trio_core.rules.merging import dpc_knn

LAYERS = (0, 2)
"""Of the toys' six: 11 of 32 in proportion."""


# --- density peaks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "centres", "labels"),
    [(1, [1], [0, 0, 0, 0, 0, 0]), (2, [1, 3], [0, 0, 0, 1, 1, 0]), (3, [1, 2, 3], [0, 0, 1, 2, 2, 0])],
)
def test_centres_by_hand(count, centres, labels):
    """On a line, with three neighbours: the mean squares are .033, .017, .043, 2.443, 2.817, 2.803.

    The peaks are .1, 5.2 (the largest distance), .2, 2.7, .2, 2; times the density .097, 5.114, .192, .235, .012, .121,
    so that the last token, alone as it is, comes fourth.
    """
    places = torch.tensor([0.0, 0.1, 0.3, 3, 3.2, -2])[:, None]
    assert [part.tolist() for part in dpc_knn(places, count, 3)] == [centres, labels]


def test_densities_that_vanish_still_rank():
    """A thousand times as far apart all of them are 0 in floats, and their order is not."""
    places = torch.tensor([-2, 3.2, 3, 0.3, 0.1, 0.0])[:, None] * 1000
    assert dpc_knn(places, 2, 3)[0].tolist() == [4, 5]


def test_ties_go_to_the_lower_index():
    """Of equal tokens the first is the densest, and the others' peaks are all 0."""
    for count in range(1, 6):
        centres, labels = dpc_knn(torch.full((5, 3), 0.7), count)
        assert centres.tolist() == list(range(count))
        assert labels.tolist() == [*range(count), *[0] * (5 - count)]


def dpc_knn_in_a_loop(features: Tensor, count: int, neighbours: int = 7) -> tuple[list[int], list[int]]:
    """DPC-KNN, token by token."""
    rows = [[float(value) for value in row] for row in features]
    tokens, width = len(rows), len(rows[0])
    distance = [[math.dist(a, b) / width**0.5 for b in rows] for a in rows]
    sparse = [sum(d * d for d in sorted(row)[:neighbours]) / min(neighbours, tokens) for row in distance]
    denser = sorted(range(tokens), key=sparse.__getitem__)
    largest = max(map(max, distance))
    peak = [min((distance[i][j] for j in denser[: denser.index(i)]), default=largest) for i in range(tokens)]
    ranked = sorted(range(tokens), key=lambda i: -peak[i] * math.exp(-sparse[i]))
    centres = sorted(ranked[:count])
    labels = [
        centres.index(i) if i in centres else min(range(count), key=lambda c, i=i: distance[i][centres[c]])
        for i in range(tokens)
    ]
    return centres, labels


# --- videos ----------------------------------------------------------------------------------------------------------


def test_a_label_keeps_its_longest_runs():
    for labels, lengths in (
        ([0, 0, 1, 1, 1], [2, 3]),
        ([0, 0, 1, 2, 2, 2], [2, 4]),  # a lonely frame joins the longer neighbour
        ([0, 0, 1, 2, 2], [3, 2]),  # or the first one
        ([1, 0, 0, 2, 0], [5]),
        ([0, 0, 1, 0, 0], [5]),  # both runs of the label are its longest, and meet
        ([0, 0, 0, 1, 1, 0, 0, 1, 1], [3, 6]),
    ):
        assert steady_runs(labels) == lengths


STILL = torch.tensor([[[1.0, 0], [0, 1]], [[3, 0], [1, 0]]])
"""Two frames. The first place does not change, the second one does."""


def kept_of_still(budget: int) -> tuple[list[int], list[list[float]], list[int]]:
    """The tokens that stay, their features, and where each token went; the last token is a newline."""
    features = torch.cat([STILL.view(4, 2), torch.tensor([[7.0, 7]])])
    stage = PruneVid(retention=0.5).select(tiny.video_view(features, [[0, 1], [2, 3]], budget))
    assert stage.features and stage.merged
    return stage.kept[0].tolist(), stage.features[0].tolist(), stage.merged()[0].tolist()


def test_a_static_place_is_averaged_over_time_if_the_budget_allows():
    """The blocks are the newline, the static place, and the other place of each frame."""
    assert kept_of_still(4) == ([0, 1, 3, 4], [[2, 0], [0, 1], [1, 0], [7, 7]], [0, 1, 0, 3, 4])
    assert kept_of_still(5) == ([*range(5)], [*STILL.view(4, 2).tolist(), [7, 7]], [*range(5)])
    assert kept_of_still(2) == ([0, 3], [[2, 0], [1, 0]], [0, -1, 0, 3, -1])


def test_it_merges_a_video_as_the_official_code_does():
    """`merge_frames_dynamic` at b12600c, without its noise: two segments of four frames, with 16 static places each."""
    frames = wave(3, 1024).view(8, 32, 4)
    frames[:, :16] = frames[:1, :16] + 0.1 * frames[:, :16]
    frames[4:] += 0.5
    view = tiny.video_view(frames.view(256, 4), torch.arange(256).view(8, 32).tolist(), 80)
    stage = PruneVid(retention=0.5).select(view)
    assert stage.features
    first = [3, 6, 7, 8, 12, 13, 14, 15, 16, 17, 18, 20, 24, 25, 26, 28, 50, 51, 52, 54, 55, 58, 61, 63]
    assert stage.kept[0][: len(first)].tolist() == first
    means = [-0.9456, 0.7501, -0.6613, 0.4623, -1.0313, 0.5027, 0.6203, -0.6484]
    assert stage.features[0][:8, 0].tolist() == pytest.approx(means, abs=1e-3)


def test_later_each_frame_keeps_its_share():
    """The two tokens in no frame keep one, and the three of each frame two."""
    view = tiny.video_view(torch.zeros(8, 2), [[0, 1, 2], [4, 5, 6]], 5)
    sample = next(iter(view.samples))
    assert sample.frame.tolist() == [0, 0, 0, -1, 1, 1, 1, -1]
    assert top_of_each_frame(sample, torch.tensor([1.0, 3, 2, 9, 4, 5, 6, 8])).tolist() == [1, 2, 3, 5, 6]


# --- what the text asks for ------------------------------------------------------------------------------------------


def test_the_text_asks_by_hand():
    """Two rows and two heads of one key head: each token's largest share of any row."""
    keys = torch.tensor([1.0, 2, 3])[:, None, None].log()
    query = torch.tensor([[1.0, 0], [2, -1]])[..., None]
    shares = [(1 / 6, 2 / 6, 3 / 6), (1 / 3, 1 / 3, 1 / 3), (1 / 14, 4 / 14, 9 / 14), (6 / 11, 3 / 11, 2 / 11)]
    expected = [max(column) for column in zip(*shares, strict=True)]
    assert text_attention(query, keys, torch.ones(3, dtype=torch.bool)).tolist() == pytest.approx(expected)


def most_asked(query: Tensor, keys: Tensor) -> list[float]:
    """The card's: query [T, H, E], keys [S, N, E], each head and row a softmax over all tokens."""
    most = [0.0] * len(keys)
    for row in query:
        for h, q in enumerate(row):
            k = keys[:, h * keys.shape[1] // query.shape[1]].double()
            powers = (k @ q.double() / len(q) ** 0.5).exp()
            most = [max(a, float(b)) for a, b in zip(most, powers / powers.sum(), strict=True)]
    return most


# --- inside real models ----------------------------------------------------------------------------------------------


def merged(model: PreTrainedModel, one: dict[str, Tensor], budget: int) -> dict[int, Tensor]:
    """The numbers of the tokens that stay before the decoder, with their means, of what enters the dense model's."""
    features = dense_layers(model, one)[0][0][0, tiny.visual_rows(one)].double()
    centres, labels = dpc_knn_in_a_loop(features, budget)
    return {
        centre: features[[token for token, label in enumerate(labels) if label == number]].mean(dim=0).float()
        for number, centre in enumerate(centres)
    }


@pytest.mark.parametrize("side", tiny.fast_first(["left", "right"], "right"))
@tiny.cached
def test_both_stages_are_the_cards_in_a_padded_batch(family, side):
    """The first by what enters the dense model's decoder, the second by what the eager model's own layer projects."""
    model, method = tiny.model(family), PruneVid(retention=0.5)
    samples = [tiny.sample(family, "small", after=after, seed=after) for after in (9, 12)]  # large ones have a video
    inputs = tiny.batch(samples, side)
    with torch.inference_mode(), prune(model, method) as trace, listening(model) as calls:
        model(**inputs, use_cache=False)
    assert tuple(stage.layer for stage in trace.stages) == LAYERS
    for b, one in enumerate(samples):
        clusters = merged(model, one, trace.schedules[b].budgets[0])
        assert trace.stages[0].kept[b].tolist() == list(clusters)
        towers.check_entered(model, one, 0, clusters, calls[0][0][0][b])
        alone = second_stage(tiny.model(family, "eager"), one, method)
        assert alone == trace.stages[1].kept[b].tolist()


def second_stage(model: PreTrainedModel, one: dict[str, Tensor], method: PruneVid) -> list[int]:
    """What the second stage keeps, from the queries and keys that the layer before it made when it ran."""
    attention = adapter_for(model).layers[LAYERS[1] - 1].get_submodule("self_attn")
    with towers.outputs(towers.projections(attention)) as seen:  # the second time, if any, is the method's
        trace = tiny.run(model, one, method)[1]
    first, budget = trace.stages[0].kept[0].tolist(), trace.schedules[0].budgets[1]
    tokens = seen["k"].shape[1]
    query, keys = (seen[name][0].reshape(tokens, -1, attention.head_dim) for name in "qk")
    behind = one["input_ids"].shape[1] - 1 - int(tiny.visual_rows(one)[-1])
    ids = one["input_ids"][0].tolist()
    places = stages_of(trace, one, 0, len(ids))[0].sort().values.tolist()
    visual = [place for place, row in enumerate(places) if ids[row] in (tiny.IMAGE, tiny.VIDEO)]
    scores = most_asked(query[-behind:], keys)
    ranked = sorted(range(len(visual)), key=lambda i: -scores[visual[i]])[:budget]
    return [first[i] for i in sorted(ranked)]
