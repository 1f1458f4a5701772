from fractions import Fraction

from trio_profile.judge.audit.finding import number


def test_a_number_in_a_sentence_has_six_digits_at_most():
    assert [number(Fraction(1, 3)), number(Fraction(2312)), number(0.5), number(2.6757)] == [
        *("0.333333", "2312", "0.5", "2.6757")
    ]
