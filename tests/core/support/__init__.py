"""The setups of docs/reference/support.md, a table a file."""

from tests.core.support import (
    caches,
    calls,
    classes,
    compiling,
    decoding,
    hooks,
    parallel,
    processes,
    prompts,
    rules,
    training,
    weights,
)

GROUPS = tuple(
    module.GROUP
    for module in (
        classes,
        prompts,
        decoding,
        caches,
        calls,
        hooks,
        compiling,
        weights,
        training,
        processes,
        parallel,
        rules,
    )
)
"""The tables in the order of the page."""
