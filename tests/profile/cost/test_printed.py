"""Intervals of printed figures: what a number may have been before it was printed."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_profile.cost.printed import Interval, Printed


def test_a_truncation_is_told_from_a_rounding():
    printed = Printed.of("2.98")
    assert printed.how(Fraction("2.986076")) == "truncated"
    assert printed.how(Fraction("2.9761")) == "rounded"
    assert printed.how(Fraction("2.99")) == "no"
    assert printed.how(Fraction("2.9749")) == "no"
    assert printed.allowed == Interval(Fraction("2.975"), Fraction("2.99"), Fraction("2.98"))


def test_trailing_zeros_count():
    assert Printed.of("2").last == 1
    assert Printed.of("2.00").last == Fraction(1, 100)
    assert Printed.of("2e3").last == 1000
    assert Printed.of("2.00").value == Printed.of("2").value == 2


@given(st.fractions(min_value=0, max_value=10**6), st.integers(0, 6))
def test_an_interval_contains_every_value_that_rounds_or_truncates_to_the_figure(value: Fraction, digits: int):
    unit = Fraction(1, 10**digits)
    below = value // unit * unit
    nearest = below + unit if value - below >= unit / 2 else below
    for kept, how in ((below, "truncated"), (nearest, "rounded")):
        printed = Printed.of(f"{float(kept):.{digits}f}")
        if printed.value == kept:  # a float has not every fraction
            assert printed.allowed.low <= value <= printed.allowed.high
            assert printed.how(value) in ("rounded", how)


def test_two_figures_may_be_of_one_value_if_their_intervals_meet():
    for one, other, agree in (
        ("0.11", "0.111", True),
        ("0.11", "0.12", True),  # 0.117
        ("0.11", "0.13", False),
        ("0.22", "0.2299", True),  # cut off
        ("0.22", "0.2301", False),
        ("98.1", "98.2", True),  # 98.17, cut off and rounded
    ):
        assert Printed.of(one).allowed.meets(Printed.of(other).allowed) == agree


def test_a_setting_matches_its_longer_form_but_no_other_setting():
    assert Printed.of("0.11").names(Printed.of("0.111"))
    assert Printed.of("0.11").names(Printed.of("0.11"))
    assert not Printed.of("0.11").names(Printed.of("0.12"))


def test_interval_arithmetic_contains_every_combination():
    whole, part = (Interval(Fraction(v - 1), Fraction(v + 1), Fraction(v)) for v in (4934, 1791))
    assert whole / part == Interval(Fraction(4933, 1792), Fraction(4935, 1790), Fraction(4934, 1791))
    assert whole - part == Interval(Fraction(3141), Fraction(3145), Fraction(3143))
    assert (Interval.at(-1) / part).low == Fraction(-1, 1790)
    assert whole.times(2) + Interval.at(1) == Interval(Fraction(9867), Fraction(9871), Fraction(9869))
    assert whole.meets(Interval.at(4935)) and not whole.meets(Interval.at(4936))


def test_text_that_is_no_number_is_refused():
    for text in ("", "nan", "inf", "1_000", "0x10", "1e999", "12:30", "1,5", "9" * 25, "٣", " 1", "1\n"):
        with pytest.raises(ValueError, match="decimal number"):
            Printed.of(text)
