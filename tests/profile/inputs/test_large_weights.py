"""The weights of large built-in models, made at toy size: pieces are shortened, so that small tensors have many."""

from functools import partial

import pytest
import torch

from trio_profile.inputs import large_weights, models
from trio_profile.inputs.builtin import BUILTIN
from trio_profile.inputs.large_weights import with_large_weights
from trio_profile.records.schema import Study

SMALL = Study(model="pocket-deep", dtype="bfloat16")


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_weights, "BLOCK", 40_009)
    monkeypatch.setattr(large_weights, "PIECE", 10_007)


def weights(seed: int = 0) -> dict[str, torch.Tensor]:
    return models.load(SMALL.model_copy(update={"seed": seed})).model.state_dict()


def test_a_large_model_has_the_distribution_of_transformers(monkeypatch):
    known = models.load(SMALL).model
    monkeypatch.setattr(models, "LARGE", 0)
    made = models.load(SMALL).model
    tensors = {**dict(known.named_parameters()), **dict(known.named_buffers())}
    ours = {**dict(made.named_parameters()), **dict(made.named_buffers())}
    assert ours.keys() == tensors.keys() and not made.training
    for name, theirs in tensors.items():
        mine = ours[name]
        assert (mine.dtype, mine.shape, mine.requires_grad) == (theirs.dtype, theirs.shape, theirs.requires_grad)
        if theirs.numel() <= 10_007:  # norms, biases, positions, frequencies; some are drawn
            assert torch.equal(mine, theirs) or theirs.float().std() > 0
        else:
            assert mine.float().std().item() == pytest.approx(theirs.float().std().item(), rel=0.03), name
            assert abs(mine.float().mean()) < 0.03 * mine.float().std(), name
    embedding = made.get_input_embeddings().weight
    assert isinstance(embedding, torch.Tensor)
    assert not embedding[0].any()  # the padding token: transformers zeroes its row after it drew it


@pytest.mark.parametrize("least", [0, large_weights.LARGE])
def test_the_seed_decides_the_weights_and_leaves_the_users_random_state(monkeypatch, least: int):
    """Of a large model and of a small one."""
    monkeypatch.setattr(models, "LARGE", least)
    before = torch.get_rng_state()
    first, second, other = (weights(seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before) and torch.get_default_dtype() == torch.float32
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    assert not any(torch.equal(value, other[name]) for name, value in first.items() if value.numel() > 10_007)


def test_a_small_model_gets_its_weights_from_transformers(monkeypatch):
    """Kept results of small models stay valid."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    try:
        known = BUILTIN["pocket-deep"].cls._from_config(BUILTIN["pocket-deep"].config()).state_dict()
    finally:
        torch.set_default_dtype(torch.float32)
    ours = weights()
    assert all(torch.equal(value, ours[name]) for name, value in known.items())


def test_a_projector_that_transformers_does_not_know_is_filled_too():
    builtin, config = BUILTIN["tokenpacker-7b"], BUILTIN["tokenpacker-7b"].config()
    config.vision_config.num_hidden_layers = config.text_config.num_hidden_layers = 0
    config.text_config.hidden_size, config.text_config.intermediate_size, config.text_config.vocab_size = 64, 64, 64
    model = with_large_weights(partial(builtin.cls._from_config, config), 0)
    for name, value in model.named_parameters():
        assert value.isfinite().all() and value.abs().max() < 10, name
