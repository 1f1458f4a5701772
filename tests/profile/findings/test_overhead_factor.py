"""The paper has γ = 1 + β."""

from trio_profile.findings.overhead_factor import named


def test_a_factor_below_1_is_not_called_gamma():
    assert named(2.14) == "γ = 2.14" and named(0.21) == "an overhead factor of 0.210"
