"""What a study of servers recommends, for each outcome."""

from tests.profile.documents import endpoints_document
from trio_profile.kinds.servers.advice import pays, recommendation
from trio_profile.kinds.servers.document import AtLoad, EndpointsDocument, LoadBreakEven


def with_break_evens(*break_evens: LoadBreakEven) -> EndpointsDocument:
    return endpoints_document().model_copy(update={"break_even": break_evens})


def _break_even(**fields) -> LoadBreakEven:
    return LoadBreakEven(**{"quantity": "throughput", "loop": "closed", "measured": (1, 8), **fields})


def test_only_what_the_interval_decides_is_advised():
    pruning, dense = "pruning", "the dense model"
    for side, ci95, below, above in (
        ("below", (3.1, 3.9), f"{pruning} up to a concurrency of 3", f"{dense} from a concurrency of 4 on"),
        ("above", (2.5, 3.6), f"{dense} up to a concurrency of 2", f"{pruning} from a concurrency of 4 on"),
        ("below", (1.0, 1.86), None, f"{dense} from a concurrency of 2 on"),
        ("above", (5.0, 8.0), f"{dense} up to a concurrency of 5", None),
        ("below", (1.0, 8.0), None, None),
    ):
        one = _break_even(status="crossing", load=sum(ci95) / 2, ci95=ci95, pays=side)
        (line,) = recommendation(with_break_evens(one))
        sides = [text for text in (below, above) if text]
        assert line.startswith(f"Use {', and '.join(sides)}, judged" if sides else "Measure longer")


def test_a_load_whose_own_interval_contains_1_is_not_promised():
    """At 1 and 2 the gain of throughput is 2 and 1.75; at 4 and 8 its interval is made to contain 1."""
    document = endpoints_document()
    for status, words in (("always", "Use pruning at"), ("never", "Do not use pruning at")):
        for wide, sentence in (
            ((), f"{words} every concurrency that was measured: its gain in throughput is 0.75× to 2.00×"),
            ((4, 8), f"{words} a concurrency of 1 and 2: its gain in throughput is 1.75× to 2.00×"),
            ((1, 2, 4, 8), "Measure longer: these rounds do not say whether pruning pays in throughput."),
        ):
            loads = tuple(_widened(at) if at.load in wide else at for at in document.loads)
            one = _break_even(status=status)
            line = next(recommendation(document.model_copy(update={"loads": loads, "break_even": (one,)})))
            assert line.startswith(sentence)
            assert ("At 4 and 8 these rounds do not decide." in line) == (len(wide) == 2)


def test_an_undecided_line_still_says_which_loads_are_decided():
    """Of the gains 2, 1.75, 1.25 and 0.75 the last two are made to contain 1, or none: then they contradict."""
    document, one = endpoints_document(), _break_even(status="inconclusive")
    for wide, advised, said in (
        ((4, 8), "Use pruning at a concurrency of 1 and 2: ", "pays at 1 and 2, and is undecided at 4 and 8"),
        ((), "Measure longer", "is inconclusive"),
    ):
        loads = tuple(_widened(at) if at.load in wide else at for at in document.loads)
        changed = document.model_copy(update={"loads": loads, "break_even": (one,)})
        assert next(recommendation(changed)).startswith(advised)
        assert pays(changed, one) == said


def _widened(at: AtLoad) -> AtLoad:
    """The same load with an interval of the throughput's gain that contains 1."""
    gain = at.gains["throughput"].model_copy(update={"ci95": (0.9, 2.5)})
    return at.model_copy(update={"gains": {**at.gains, "throughput": gain}})


def test_a_load_without_a_gain_is_not_promised():
    document = endpoints_document()
    *first, last = (at for at in document.loads if at.loop == "closed")
    loads = (*first, last.model_copy(update={"gains": {}}))
    line = next(
        recommendation(document.model_copy(update={"loads": loads, "break_even": (_break_even(status="always"),)}))
    )
    assert line.startswith("Use pruning at a concurrency of 1, 2 and 4: ")
