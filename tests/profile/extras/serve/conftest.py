"""Pocket, loaded in this process to compare with, and served by a process of its own, pruned and dense."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.profile.extras.serve.serving import Running, running
from tests.profile.studying import make
from trio_profile.extras.serve.answering import prepare
from trio_profile.extras.serve.worker import work

STUDY = make(model="pocket", device="cpu", methods=("trio",), retentions=(0.222,))


@pytest.fixture(scope="session")
def pruned() -> Any:
    """A loaded model with its method."""
    return prepare(STUDY)


@pytest.fixture(scope="session")
def dense(pruned: Any) -> Any:
    return pruned[0], None


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    with running(partial(work, STUDY, False)) as found:
        yield found


@pytest.fixture(scope="session")
def dense_server() -> Iterator[Running]:
    with running(partial(work, STUDY, True)) as found:
        yield found
