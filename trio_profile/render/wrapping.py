"""Where a line may end: not inside an interval, and not between a number and its unit."""

import re
from textwrap import wrap

_NO_BREAK = "\N{NO-BREAK SPACE}"
_INTERVAL = re.compile(r"\[[\d., +−]+\]")
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|[KMGT]iB|ms\b|\[)")


def unbroken(text: str) -> str:
    """The same text with no-break spaces where no line may end."""
    return _BEFORE_UNIT.sub(_NO_BREAK, _INTERVAL.sub(lambda found: found[0].replace(" ", _NO_BREAK), text))


def lines(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns."""
    found = wrap(unbroken(text), max(width, 1), break_long_words=False, break_on_hyphens=False)
    return [line.replace(_NO_BREAK, " ") for line in found] or [""]
