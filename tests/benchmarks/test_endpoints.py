"""The break-even concurrency over real sockets: how often its interval holds the computed one.

Two servers on loopback encode one request at a time; the rest of the work runs in parallel. Without noise the dense
one answers min(c / 0.2, 1 / 0.02) requests per second and the pruned one min(c / 0.1, 1 / 0.04), so they are equal at
c = 5. The client, both servers and the machine add their own times. The ordinary tests do the same in virtual time,
where the answer is exact.
"""

import asyncio

import pytest

from tests.profile.kinds.servers.fake_servers import FakeServer, study
from trio_profile.kinds.servers import run as endpoints

RUNS = 2
COMPUTED = 5.0


@pytest.mark.benchmark(group="break-even concurrency over real sockets")
def test_the_break_even_over_real_sockets(benchmark):
    found: list[tuple[float, tuple[float, float]]] = []

    def run() -> None:
        with FakeServer(encode_s=0.02, rest_s=0.18) as dense, FakeServer(encode_s=0.04, rest_s=0.06) as pruned:
            asked = study(
                dense=dense.url,
                pruned=pruned.url,
                concurrency=(2, 4, 6, 8),
                requests=24,
                segment_seconds=30.0,
                seed=len(found),
            )
            one = endpoints.run(asked).break_even[0]
        assert one.load is not None and one.ci95 is not None
        found.append((one.load, one.ci95))

    benchmark.pedantic(run, rounds=RUNS)
    inside = sum(low <= COMPUTED <= high for _, (low, high) in found)
    benchmark.extra_info.update(inside=f"{inside} of {len(found)}", computed=COMPUTED, found=found)


@pytest.mark.benchmark(group="CPU time of the client for one request")
def test_the_cost_of_one_request(benchmark):
    """How many requests per second the client can send: one streamed answer of 16 pieces from a server at rest."""
    from trio_profile.kinds.servers.traffic.server import Server

    with FakeServer(tokens=16) as server:

        async def ask(number: int) -> None:
            async with Server(server.url, None, 20.0) as client:
                for _ in range(number):
                    assert (await client.ask({"messages": [{"content": []}]})).error is None

        benchmark.pedantic(lambda: asyncio.run(ask(50)), rounds=5)
    benchmark.extra_info["ms_for_each_request"] = round(1000 * benchmark.stats.stats.min / 50, 3)
