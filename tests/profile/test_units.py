from trio_profile import units


def test_counts_and_sizes_have_prefixes_and_exact_numbers_every_digit():
    assert units.count(2985934061568) == "2.986 T"
    assert units.count(2985934061568, "MACs") == "2.986 TMACs"
    assert units.count(999) == "999"
    assert units.size(333447168) == "318 MiB"
    assert units.size(1023) == "1023 B"
    assert units.size(139 * 2**30) == "139 GiB"
    assert (units.span(8, 32), units.span(2880, 2880)) == ("8 to 32", units.exact(2880))
    assert units.exact(2985934061568).split("\N{NARROW NO-BREAK SPACE}") == ["2", "985", "934", "061", "568"]
    assert units.change(4096, 4097) == "4\u202f096 + 1"
    assert units.change(2_985_934_061_568, 2_985_934_060_000) == "2.986 T − 1\u202f568"
    assert units.number_of(1, "cell") == "1 cell"
    assert units.exact(-892_081) == "−892\u202f081"


def test_shares_have_the_digits_of_their_interval_and_only_all_is_100_percent():
    assert units.percent(0.111) == "11.1 %"
    assert units.percent_within(0.6123, (0.6101, 0.6137)) == "61.2 % [61.0, 61.4]"
    assert units.percent_within(0.9084, (0.9084, 0.9084)) == "90.8 %"
    assert units.percent_within(1.0, (0.9812, 1.0)) == "100 % [98.1, 100]"
    assert units.percent_within(0.997, (0.95, 0.9998)) == "99.70 % [95.00, 99.98]"
    assert units.percent_within(1.0, (1.0, 1.0)) == units.percent_of_all(1.0) == "100 %"
    assert units.percent_of_all(0.996, 0) == "99.6 %"
    assert units.percent_within(0.5, (1e-17, 1 - 1e-16)) == "50 % [0, 100]"
    assert units.percent(-0.0535, 2) == "−5.35 %"


def test_differences_in_points_have_a_sign_and_nothing_has_no_minus():
    assert units.points_within(-0.03, (-0.051, 0.009)) == "−3.0 [−5.1, +0.9]"
    assert units.points_within(-0.0003, (-0.0004, 0.0002)) == "+0.0 [+0.0, +0.0]"
    assert units.points(-0.58, (-0.641, -0.512)) == "58.0 points less [−64.1, −51.2]"
    assert units.points(0.0, (-0.014, 0.014)) == "no difference [−1.4, +1.4]"
    assert units.points_lost(-0.14, (-0.188, -0.089)) == "14.0 [8.9, 18.8]"
    assert units.points_lost(0.0, (-0.019, 0.0001)) == "0.0 [0.0, 1.9]"


def test_factors_and_times_have_the_digits_of_their_interval():
    assert units.correlation(-0.314, (-0.42, 0.08)) == "−0.31 [−0.42, 0.08]"
    assert units.times(1.2345, (1.20, 1.27)) == "1.23×"
    assert units.times(1.2345, (0.2, 2.9)) == "1.2×"
    assert units.times_within(1.2345, (1.20, 1.27)) == "1.23× [1.20, 1.27]"
    assert units.interval((1.8675, 1.8948)) == "[1.87, 1.89]"
    assert units.interval((1.5, 1.5)) == "[1.5000, 1.5000]"
    assert units.times_within(0.94, (0.88, 0.9996)) == "0.9400× [0.8800, 0.9996]"
    assert units.power(2.886e-07) == "2.9 × 10⁻⁷"
    assert units.factor(2.67e-8) == "2.7 × 10⁻⁸" and units.factor(-2.67e-8) == "−2.7 × 10⁻⁸"
    assert units.factor(0.18349) == "0.183"
    assert units.short(0.012345) == "0.0123"
    for value, text in ((0.1834, "0.183"), (0.000213, "2.1 × 10⁻⁴"), (-2e-5, "−2.0 × 10⁻⁵"), (0, "0")):
        assert units.power(value) == text


def test_times_have_three_digits_and_a_unit_that_suits_their_size():
    assert units.milliseconds(0.01234) == "0.0123 ms"
    assert units.milliseconds(1234.5) == "1230 ms"
    assert units.milliseconds(99.96) == "100 ms"
    assert units.duration(0.5) == "0.5 s"
    assert units.duration(42.4) == "42 s"
    assert units.duration(185) == "3 min 05 s"
    assert units.duration(7800) == "2 h 10 min"


def test_scores_loads_and_divergences():
    assert units.task_score(0.83124) == "0.8312"
    assert units.task_score(7.5, 61.9) == "7.5"
    assert units.task_score(-0.5) == "−0.5000"
    assert units.task_score_difference(-0.0123, 0.86, (-0.0301, 0.0055)) == "−0.0123 [−0.0301, +0.0055]"
    assert units.task_score_difference(1.234, 86.4) == "+1.2"
    assert units.count_within(3.21, (2.9, 3.5)) == "3.2 [2.9, 3.5]"
    assert units.nats_within(0.1234, (0.11, 0.14)) == "0.123 nats [0.110, 0.140]"
    assert units.score(94.9) == "94.9"
    assert [units.load(one) for one in (6.4231, 32, 999.6, 1024, 1250)] == ["6.42", "32", "1000", "1024", "1250"]
