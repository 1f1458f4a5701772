import torch
from torch import nn

from trio_core.models.layer import _is_affine


class Rectified(nn.Linear):
    def forward(self, input):
        return super().forward(input).relu()


class Affine(nn.Linear):
    """A linear of the user's own class."""


def test_one_huge_token_hides_no_module_that_is_not_affine():
    """The last tokens of a residual stream may differ in size by orders of magnitude."""
    for size in (1.0, 1000.0, 0.001):
        hidden = torch.randn(1, 6, 8, generator=torch.Generator().manual_seed(0))
        hidden[:, -2] *= size
        torch.manual_seed(0)
        assert _is_affine(Affine(8, 8), hidden)
        assert not _is_affine(Rectified(8, 8), hidden)
