"""What a study of servers recommends, for each outcome."""

import pytest

from tests.profile.documents import endpoints_document
from trio_profile.kinds.servers.advice import recommendation
from trio_profile.kinds.servers.document import EndpointsDocument, LoadBreakEven


def with_break_evens(*break_evens: LoadBreakEven) -> EndpointsDocument:
    return endpoints_document().model_copy(update={"break_even": break_evens})


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"status": "always"}, "Use pruning: it is better in throughput at every concurrency that was measured."),
        ({"status": "never"}, "Do not use pruning here: it is worse in throughput at every concurrency that was"),
        ({"status": "never", "measured": (4, 4)}, "throughput at a concurrency of 4."),
        ({"status": "always", "quantity": "ttft_p95_ms", "loop": "open"}, "better in the 95th percentile of TTFT at "),
        ({"status": "inconclusive", "ci95": (1, 8)}, "Measure longer: these rounds do not say"),
        ({"status": "inconclusive", "against": (1.0,)}, "Decide load by load: the gain in throughput does not rise"),
    ],
)
def test_each_outcome_has_its_advice(fields, says):
    (line,) = recommendation(with_break_evens(_break_even(**fields)))
    assert says in line


def _break_even(**fields) -> LoadBreakEven:
    return LoadBreakEven(**{"quantity": "throughput", "loop": "closed", "measured": (1, 8), **fields})


@pytest.mark.parametrize(
    ("pays", "ci95", "says"),
    [
        ("below", (3.1, 3.9), "Use pruning up to a concurrency of 3, and the dense model above it, judged by"),
        ("below", (2.5, 5.6), "Use pruning up to a concurrency of 2, and the dense model from 6 on, judged by"),
        ("above", (2.5, 3.6), "Use the dense model up to a concurrency of 2, and pruning from 4 on, judged by"),
        ("below", (1.0, 1.86), "Use the dense model from a concurrency of 2 on, judged by throughput. Below it is not"),
        ("below", (5.0, 8.0), "Use pruning up to a concurrency of 5, judged by throughput. Above it is not decided"),
        ("above", (5.0, 8.0), "Use the dense model up to a concurrency of 5, judged by throughput. Above it is not"),
        ("below", (1.0, 8.0), "Measure longer: the interval of the break-even in throughput reaches from the lowest"),
    ],
)
def test_only_what_the_interval_decides_is_advised(pays, ci95, says):
    one = _break_even(status="crossing", load=sum(ci95) / 2, ci95=ci95, pays=pays)
    (line,) = recommendation(with_break_evens(one))
    assert line.startswith(says)


def test_rates_are_not_rounded_to_whole_numbers():
    one = _break_even(status="crossing", load=2.9, ci95=(2.5, 3.25), quantity="ttft_p95_ms", loop="open")
    (line,) = recommendation(with_break_evens(one))
    assert line.startswith("Use pruning up to a rate of 2.5, and the dense model from 3.25 on, judged by the 95th")


def test_quantities_that_disagree_are_said_together():
    both = [_break_even(quantity=name, status="never") for name in ("ttft_p50_ms", "ttft_p95_ms")]
    assert list(recommendation(with_break_evens(_break_even(status="always"), *both)))[1] == (
        "For the median TTFT and the 95th percentile of TTFT the answer differs: "
        "pruning pays at no concurrency measured, 1 to 8."
    )
