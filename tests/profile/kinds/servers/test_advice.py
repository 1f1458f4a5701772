"""What a study of servers recommends, for each outcome."""

from tests.profile.documents import endpoints_document
from trio_profile.kinds.servers.advice import recommendation
from trio_profile.kinds.servers.document import EndpointsDocument, LoadBreakEven


def with_break_evens(*break_evens: LoadBreakEven) -> EndpointsDocument:
    return endpoints_document().model_copy(update={"break_even": break_evens})


def _break_even(**fields) -> LoadBreakEven:
    return LoadBreakEven(**{"quantity": "throughput", "loop": "closed", "measured": (1, 8), **fields})


def test_only_what_the_interval_decides_is_advised():
    pruning, dense = "pruning", "the dense model"
    for pays, ci95, below, above in (
        ("below", (3.1, 3.9), f"{pruning} up to a concurrency of 3", f"{dense} from a concurrency of 4 on"),
        ("above", (2.5, 3.6), f"{dense} up to a concurrency of 2", f"{pruning} from a concurrency of 4 on"),
        ("below", (1.0, 1.86), None, f"{dense} from a concurrency of 2 on"),
        ("above", (5.0, 8.0), f"{dense} up to a concurrency of 5", None),
        ("below", (1.0, 8.0), None, None),
    ):
        one = _break_even(status="crossing", load=sum(ci95) / 2, ci95=ci95, pays=pays)
        (line,) = recommendation(with_break_evens(one))
        sides = [side for side in (below, above) if side]
        assert line.startswith(f"Use {', and '.join(sides)}, judged" if sides else "Measure longer")
