"""The paper's equations in their plain form: each against a derivation of its own."""

import pytest
import torch
from torch import Tensor

from trio_core.rules import equations, nms

# methods.md: six features on the plane and their scores
FEATURES = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9], [0.7, 0.7], [-1.0, 0.0]])
SCORES = torch.tensor([5.0, 9.0, 3.0, 4.0, 8.0, 1.0])


# --- proxy loss ------------------------------------------------------------------------------------------------------


def test_proxy_loss_is_the_mean_of_minus_log_of_the_likeliest():
    logits = torch.randn(3, 4, 17, dtype=torch.float64)
    likeliest = logits.softmax(dim=-1).amax(dim=-1)
    assert torch.allclose(equations.proxy_loss(logits), -likeliest.log().mean(), rtol=0, atol=1e-12)


# --- saliency --------------------------------------------------------------------------------------------------------


def test_saliency_through_attention_is_the_slope_of_the_loss():
    """Central differences of the loss itself, with no autograd at all."""
    hidden, head = torch.randn(2, 9, 6, dtype=torch.float64), torch.randn(6, 11, dtype=torch.float64)
    query, key, value = torch.randn(3, 6, 6, dtype=torch.float64)
    ahead = torch.ones(9, 9, dtype=torch.bool).triu(1)

    def readout(hidden: Tensor) -> Tensor:
        scores = (hidden @ query @ (hidden @ key).transpose(1, 2)).masked_fill(ahead, -torch.inf)
        return (hidden + scores.softmax(dim=-1) @ hidden @ value)[:, -4:] @ head

    scores = equations.saliency(readout, hidden)
    slope, step = torch.zeros_like(hidden), 1e-6
    for place in range(slope.numel()):
        nudge = torch.zeros_like(slope)
        nudge.view(-1)[place] = step
        up, down = (equations.proxy_loss(readout(hidden + sign * nudge)) for sign in (1, -1))
        slope.view(-1)[place] = (up - down) / (2 * step)
    assert torch.allclose(scores, slope.norm(dim=-1), rtol=0, atol=1e-8)
    assert (scores > 1e-6).sum() > scores.numel() / 2


# --- selection -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nms_select", [equations.nms_select, nms.nms_select])
@pytest.mark.parametrize(
    ("budget", "kept"), [(3, [1, 3, 4]), (4, [1, 3, 4, 5]), (5, [0, 1, 3, 4, 5]), (6, [0, 1, 2, 3, 4, 5])]
)
def test_algorithm_1_on_the_example_worked_by_hand(nms_select, budget, kept):
    assert nms_select(SCORES, FEATURES, budget, threshold=0.8).tolist() == kept
