"""Checks of a rule's inputs. Several rules share them."""

import math

import torch
from torch import Tensor

from trio_core.errors import OptionError


def check_budget(budget: int, count: int) -> None:
    """Raise OptionError for a budget outside 1 … count. count: how many tokens there are."""
    if not 1 <= budget <= count:
        raise OptionError(f"budget {budget}: can keep 1 … {count} of {count} tokens")


def check_finite(what: str, *inputs: Tensor) -> None:
    """Raise OptionError if an input holds NaN or infinity. The host waits for the device once.

    what: what the inputs are, in the plural.
    inputs: floating-point tensors of any shape, computed from the encoder's output.
    """
    # An extreme is NaN if any value is, and infinite if any value is. So one number answers for all inputs.
    if not math.isfinite(sum(low.double() + high for low, high in map(torch.aminmax, inputs))):
        raise OptionError(f"{what} hold NaN or infinity: the encoder's output is broken")
