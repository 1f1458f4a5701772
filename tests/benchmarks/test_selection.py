"""What the choosing itself costs: NMS beside the plain loop of Algorithm 1, and the zoo's rules pick by pick.

Below 1, the rule is the faster one. A second thread helps only where the second core is free.
"""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from trio_core.rules import equations
from trio_core.rules.nms import nms_select
from trio_core.rules.selection import cosine, dpp_map, facility_location, farthest_point

KINDS = ("random", "clustered", "duplicates")


def drawn(kind: str, count: int, width: int) -> tuple[Tensor, Tensor]:
    """Scores and features: strangers, nine to a cluster, or three directions in all."""
    generator = torch.Generator().manual_seed(0)
    directions = {"random": count, "clustered": count // 9, "duplicates": 3}[kind]
    features = torch.randn(directions, width, generator=generator)
    if kind != "random":
        features = features[torch.randint(directions, (count,), generator=generator)]
    if kind == "clustered":
        features += 0.2 * torch.randn(count, width, generator=generator)
    return torch.rand(count, generator=generator), features


@pytest.fixture(autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """One thread, or as many as the test asks for; then as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(getattr(request, "param", 1))
    yield
    torch.set_num_threads(before)


def nms_over_the_loop(benchmark, interleaved, kind: str, count: int, width: int, budget: int, rounds: int) -> None:
    scores, features = drawn(kind, count, width)
    kept = nms_select(scores, features, budget)
    assert torch.equal(kept, equations.nms_select(scores, features, budget))
    ratio = interleaved(
        lambda: equations.nms_select(scores, features, budget),
        lambda: nms_select(scores, features, budget),
        rounds,
    )
    benchmark.extra_info.update(nms_over_algorithm_1=ratio, tokens=count, width=width, kept=len(kept))


@pytest.mark.benchmark(group="selection, NMS of a large stage")
@pytest.mark.parametrize("threads", [1, 2], indirect=True)
@pytest.mark.parametrize("kind", KINDS)
def test_nms_of_a_stage(benchmark, interleaved, kind: str):
    nms_over_the_loop(benchmark, interleaved, kind, count=2880, width=4096, budget=460, rounds=11)


@pytest.mark.benchmark(group="selection, NMS of a small stage")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", [22, 92, 218, 560])
def test_nms_of_a_small_stage(benchmark, interleaved, kind: str, budget: int):
    nms_over_the_loop(benchmark, interleaved, kind, count=576, width=128, budget=budget, rounds=21)


@pytest.mark.benchmark(group="selection, 192 picks beside the N² D product")
@pytest.mark.parametrize("rule", ["farthest_point", "dpp_map", "facility_location"])
def test_picks_beside_the_cosines_of_all(benchmark, interleaved, rule: str):
    weights, features = drawn("clustered", 576, 4096)
    similarity = cosine(features)
    kernel = weights[:, None] * similarity * weights
    choose: Callable[[int], Tensor] = {
        "farthest_point": lambda k: farthest_point(features, k),
        "dpp_map": lambda k: dpp_map(kernel, k),
        "facility_location": lambda k: facility_location(similarity, weights, k),
    }[rule]
    ratio = interleaved(lambda: cosine(features), lambda: choose(192), 21)
    benchmark.extra_info.update(rule_over_cosines=ratio, tokens=576, picks=192)
