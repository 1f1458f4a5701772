"""What a tower shows, on a case worked by hand; and a tower's record."""

import torch

from trio_core.models.encoder import Encoder


def two_crops() -> Encoder:
    """Two crops of four patches. The first sample has a newline token in the middle, the second has patch 7 alone."""
    hidden = torch.arange(8.0).view(2, 4, 1)
    return Encoder(
        hidden=hidden,
        cls=None,
        attend=lambda: hidden.transpose(1, 2),
        keys=hidden[:, :, None],
        grid=(2, 2),
        places=(torch.tensor([0, 1, -1, 6, 4]), torch.tensor([7])),
        project=lambda features: features,
    )


def test_crops_list_the_tokens_of_each_crop_without_newlines():
    tokens_of_crops = [(crop, tokens.tolist()) for crop, tokens in two_crops().crops(0)]
    assert tokens_of_crops == [(0, [0, 1]), (1, [3, 4])]
    assert [(crop, tokens.tolist()) for crop, tokens in two_crops().crops(1)] == [(1, [0])]


def test_by_token_gives_zero_at_a_newline():
    encoder = two_crops()
    assert encoder.by_token(0, encoder.hidden + 1)[:, 0].tolist() == [1, 2, 0, 7, 5]
    assert encoder.by_token(1, encoder.hidden + 1)[:, 0].tolist() == [8]
    assert encoder.by_token(0, encoder.hidden[..., 0]).tolist() == [0, 1, 0, 6, 4]


def test_a_tower_without_a_cls_token_has_no_last_row():
    assert two_crops().last is None
    assert two_crops().patches == 4
