"""The setups of docs/support.md, a table a file."""

from tests.core.support import compiling, training, weights

GROUPS = (compiling.GROUP, weights.GROUP, training.GROUP)
"""The tables in the order of the page."""
