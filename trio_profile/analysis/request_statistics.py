"""Statistics of requests to a server that both the document and its doubts need."""

from collections.abc import Sequence

import numpy as np

from trio_profile.records.requests import Request


def mean_of(values: Sequence[int | None]) -> float | None:
    """Return the mean of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def delay_ms(requests: Sequence[Request]) -> float:
    """Return how late requests were sent, in milliseconds: the 99th percentile; 0 without requests."""
    return float(np.quantile([one.sent_ms - one.due_ms for one in requests], 0.99)) if requests else 0.0
