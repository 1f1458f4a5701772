"""Arguments that tests of several verbs share."""

import pytest


@pytest.fixture
def sweep_arguments(checkpoint, photograph):
    """A sweep of a tiny checkpoint that takes a second or two."""
    return [
        *("sweep", "--model", str(checkpoint), "--image", str(photograph), "--prompt", "What is this?"),
        *("--retention", "0.4,0.8", "--new-tokens", "3", "--seconds", "0.05", "--precision", "0.5"),
        *("--device", "cpu"),
    ]
