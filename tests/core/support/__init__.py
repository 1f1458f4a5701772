"""The setups of docs/support.md, a table a file."""

from tests.core.support import compiling

GROUPS = (compiling.GROUP,)
"""The tables in the order of the page."""
