"""Pocket, ready to serve, pruned and dense."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.profile.extras.serve.serving import Running, running
from tests.profile.studying import make
from trio_profile.extras.serve import listening
from trio_profile.extras.serve.application import Served


@pytest.fixture(scope="session")
def pruned() -> Served:
    return listening.prepare(make(model="pocket", device="cpu", methods=("trio",), retentions=(0.222,)))


@pytest.fixture(scope="session")
def dense(pruned: Served) -> Served:
    return replace(pruned, method=None)


@pytest.fixture(scope="module")
def server(pruned: Served) -> Iterator[Running]:
    with running(pruned) as found:
        yield found
