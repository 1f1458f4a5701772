"""Toy models and toy samples: what the seed and the sizes decide, and that the placeholders fit the features."""

import torch

from tests.core import tiny
from trio_core.models import families


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@tiny.every_family
def test_a_sample_depends_on_its_seed_only(family):
    toys = families[tiny.NAMES[family]]
    first, again, other = (toys.toy_sample(seed=seed) for seed in (1, 1, 2))
    assert equal(first, again)
    assert not torch.equal(first["input_ids"], other["input_ids"])
    assert not torch.equal(first["pixel_values"], other["pixel_values"])


@tiny.every_family
def test_the_large_sample_has_more_visual_tokens_and_no_more_words_around_them(family):
    small, large = tiny.sample(family, "small"), tiny.sample(family, "large")
    assert len(tiny.visual_rows(small)) < len(tiny.visual_rows(large))
    for one in (small, large):
        last = int(tiny.visual_rows(one)[-1])
        assert one["attention_mask"].all()
        assert one["input_ids"].shape[1] - last > 9
