"""The overhead factor of a method beside γ of the paper, in words."""

from trio_profile import units

OF_GAMMA = (
    "The paper's appendix has γ = 1 + β, where β is the work of a backward pass. So γ = 1 is a backward pass that "
    "costs nothing. The paper prints no value. An overhead factor below 1 is no γ of the paper: it is less than one "
    "forward."
)


def named(value: float) -> str:
    """A counted factor: `γ = 2.14`, or below 1 `an overhead factor of 0.21`, because the paper's γ is 1 + β."""
    return f"γ = {units.factor(value)}" if value >= 1 else f"an overhead factor of {units.factor(value)}"
