"""What a study of servers recommends, for each outcome."""

import pytest

from tests.profile.documents import endpoints_document
from trio_profile.kinds.servers.advice import recommendation
from trio_profile.kinds.servers.document import EndpointsDocument, LoadBreakEven


def with_break_evens(*found: LoadBreakEven) -> EndpointsDocument:
    return endpoints_document().model_copy(update={"break_even": found})


def advice(**fields) -> list[str]:
    """The recommendation for one break-even in throughput."""
    one = LoadBreakEven(**{"quantity": "throughput", "loop": "closed", "measured": (1, 8), **fields})
    return list(recommendation(with_break_evens(one)))


def test_each_outcome_has_its_advice():
    assert advice(status="always") == [
        "Use pruning: it is better in throughput at every concurrency that was measured."
    ]
    assert advice(status="never") == [
        "Do not use pruning here: it is worse in throughput at every concurrency that was measured."
    ]
    assert advice(status="never", measured=(4, 4)) == [
        "Do not use pruning here: it is worse in throughput at a concurrency of 4."
    ]
    rate = {"quantity": "ttft_p95_ms", "loop": "open", "measured": (1, 8)}
    assert advice(**rate, status="always") == [
        "Use pruning: it is better in the 95th percentile of TTFT at every rate that was measured."
    ]
    assert advice(status="inconclusive", ci95=(1, 8)) == [
        "Measure longer: these rounds do not say whether pruning pays in throughput."
    ]


def test_a_gain_that_is_not_steady_is_decided_load_by_load():
    assert advice(status="inconclusive", against=(1.0,)) == [
        "Decide load by load: the gain in throughput does not rise or fall steadily. At a concurrency of 1 it is "
        "on the other side of 1."
    ]


@pytest.mark.parametrize(
    ("pays", "ci95", "says"),
    [
        (
            "below",
            (3.1, 3.9),
            "Use pruning up to a concurrency of 3, and the dense model above it, judged by throughput.",
        ),
        (
            "below",
            (2.5, 5.6),
            "Use pruning up to a concurrency of 2, and the dense model from 6 on, judged by throughput. Between them "
            "it is not decided.",
        ),
        (
            "above",
            (2.5, 3.6),
            "Use the dense model up to a concurrency of 2, and pruning from 4 on, judged by throughput. Between them "
            "it is not decided.",
        ),
        (
            "below",
            (1.0, 1.86),
            "Use the dense model from a concurrency of 2 on, judged by throughput. Below it is not decided: measure "
            "longer, or lower loads.",
        ),
        (
            "below",
            (5.0, 8.0),
            "Use pruning up to a concurrency of 5, judged by throughput. Above it is not decided: measure longer, or "
            "higher loads.",
        ),
        (
            "above",
            (5.0, 8.0),
            "Use the dense model up to a concurrency of 5, judged by throughput. Above it is not decided: measure "
            "longer, or higher loads.",
        ),
        (
            "below",
            (1.0, 8.0),
            "Measure longer: the interval of the break-even in throughput reaches from the lowest to the highest load.",
        ),
    ],
)
def test_only_what_the_interval_decides_is_advised(pays, ci95, says):
    assert advice(status="crossing", load=sum(ci95) / 2, ci95=ci95, pays=pays) == [says]


def test_rates_are_not_rounded_to_whole_numbers():
    open_loop = {"quantity": "ttft_p95_ms", "loop": "open", "measured": (1, 8)}
    assert advice(status="crossing", load=2.9, ci95=(2.5, 3.25), **open_loop) == [
        "Use pruning up to a rate of 2.5, and the dense model from 3.25 on, judged by the 95th percentile of TTFT. "
        "Between them it is not decided."
    ]


def test_quantities_that_disagree_are_said_together():
    both = [
        LoadBreakEven(quantity=name, loop="closed", status="never", measured=(1, 8))
        for name in ("ttft_p50_ms", "ttft_p95_ms")
    ]
    main = LoadBreakEven(quantity="throughput", loop="closed", status="always", measured=(1, 8))
    assert list(recommendation(with_break_evens(main, *both)))[1] == (
        "For the median TTFT and the 95th percentile of TTFT the answer differs: "
        "pruning pays at no concurrency measured, 1 to 8."
    )
