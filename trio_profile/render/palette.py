"""The colours of methods. Blocks hold a colour's number; only the page knows the colour itself.

They are mid-tones that stand on white and on near-black alike.
"""

PALETTE = ("#0e8f8a", "#d0702a", "#7d6bd0", "#c94f7c", "#3b82c4", "#7f8f2a", "#a06a4a")
INK = "#7c828c"
"""The quiet colour of axes, and of series that belong to no method."""


def hex_colour(number: int | None) -> str:
    """The colour with this number; numbers past the last colour begin again. None is the quiet ink."""
    return INK if number is None else PALETTE[number % len(PALETTE)]


def see_through(colour: str, opacity: float) -> str:
    """A hex colour as `rgba(…)` with an opacity of 0 to 1."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
