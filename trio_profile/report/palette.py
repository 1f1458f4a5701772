"""The colours and the symbols of methods. Blocks hold a number; only the page knows its colour and its symbol.

The hues are those of Okabe and Ito, which people with any kind of colour blindness can tell apart (Color Universal
Design, 2008, jfly.uni-koeln.de/color). Orange, sky blue and yellow are darker here, and black is left out: each colour
has a contrast of at least 3 to white and to the page's near-black. Seven colours are not enough for twenty methods, so
each method has a symbol too. A colour and a symbol occur together only once in 56 numbers. A method has the same number
on every page.
"""

from functools import cache
from zlib import crc32

from trio_profile.records.facts import stored

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b87f00", "#3a8fc4", "#8a8400")
"""Blue, vermillion, bluish green, reddish purple, orange, sky blue, yellow."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "star")
"""Names of plotly's symbols, and of the marks in page.css."""
INK = "#7c828c"
"""The quiet colour of axes, and of series that belong to no method."""


_FIRST = ("trio", "random", "fastv", "visionzip", "divprune", "cdpruner", "sparsevlm")
"""Methods that are often on one page: each has a colour of its own."""


@cache
def _numbers() -> dict[str, int]:
    names = dict.fromkeys((*_FIRST, *(facts["name"] for facts in stored()["methods"])))
    return {name: number for number, name in enumerate(names)}


def number_of(method: str) -> int:
    """The number of a method's colour and symbol. That of a method from elsewhere depends on its name alone."""
    return _numbers().get(method, crc32(method.encode()) % (len(PALETTE) * len(SYMBOLS)))


def hex_colour(number: int | None) -> str:
    """The colour with this number; numbers past the last colour begin again. None is the quiet ink."""
    return INK if number is None else PALETTE[number % len(PALETTE)]


def colour_class(number: int | None) -> str:
    """The class that has this colour on a page. The quiet ink needs none."""
    return "" if number is None else f"c{number % len(PALETTE)}"


def symbol(number: int | None) -> str:
    """The symbol with this number; numbers past the last symbol begin again. None is a circle."""
    return SYMBOLS[0] if number is None else SYMBOLS[number % len(SYMBOLS)]


def see_through(colour: str, opacity: float) -> str:
    """A hex colour as `rgba(…)` with an opacity of 0 to 1."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
