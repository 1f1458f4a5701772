"""The embedded model, built once. Benchmarks run by `make bench`; ordinary test runs skip them."""

import pytest

from trio_profile.schema import Study
from trio_profile.workload import Workload, build


@pytest.fixture(scope="session")
def pocket() -> Workload:
    """The default study's model and input."""
    return build(Study())
