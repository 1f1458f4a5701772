"""What a tower shows, on a case worked by hand; and a tower's record."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trio_core import UnsupportedInput
from trio_core.models.encoder import Encoder, Tower


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
    found = [(crop, tokens.tolist()) for crop, tokens in two_crops().crops(0)]
    assert found == [(0, [0, 1]), (1, [3, 4])]
    assert [(crop, tokens.tolist()) for crop, tokens in two_crops().crops(1)] == [(1, [0])]


def test_by_token_gives_zero_at_a_newline():
    encoder = two_crops()
    assert encoder.by_token(0, encoder.hidden + 1)[:, 0].tolist() == [1, 2, 0, 7, 5]
    assert encoder.by_token(1, encoder.hidden + 1)[:, 0].tolist() == [8]
    assert encoder.by_token(0, encoder.hidden[..., 0]).tolist() == [0, 1, 0, 6, 4]


def test_a_tower_without_a_cls_token_has_no_last_row():
    assert two_crops().last is None
    assert two_crops().patches == 4


class CountingTower(Tower):
    """Records the output of a linear layer and makes the same Encoder of whatever it is."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 1)
        self.given: list[Tensor] = []

    def listen(self) -> list[Any]:
        return [self.linear.register_forward_hook(self.recorder("linear"))]

    def make_encoder(self, recorded: dict[str, Any], visual_tokens: list[int]) -> Encoder:  # noqa: ARG002
        self.given.append(recorded["linear"])
        return two_crops()


def test_collect_makes_the_encoder_once_and_empties_the_record():
    tower = CountingTower()
    (handle,) = tower.listen()
    output = tower.linear(torch.ones(1, 1))
    tower.collect([5, 1])
    assert tower.given[0] is output
    with pytest.raises(
        UnsupportedInput, match="no picture went through the vision tower in this forward: pass pixel_values"
    ):
        tower.collect([5, 1])
    tower.linear(torch.ones(1, 1))
    tower.forget()
    handle.remove()
    with pytest.raises(UnsupportedInput, match="no picture"):
        tower.collect([5, 1])
