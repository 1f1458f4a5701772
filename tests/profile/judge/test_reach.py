"""How many questions exclude which loss."""

from trio_profile.judge.reach import enough, least_excluded, reach_of


def test_how_many_questions_exclude_which_loss_is_said_before_they_are_asked():
    """By the interval of Bonett and Price with no loss: about z · √2 / (n + 2)."""
    assert reach_of(3, 1) == "3 questions cannot exclude any loss"
    assert reach_of(60, 1) == "60 questions exclude a loss of 4.48 points at best"
    assert reach_of(24, 10) == "24 questions exclude a loss of 15.3 points at best"
    assert reach_of(0, 1) == "without questions, nothing is said of answers"
    for cells in (1, 10):
        least = enough(cells, 0.02)
        assert least_excluded(least, cells) <= 0.02 < least_excluded(least - 1, cells)
