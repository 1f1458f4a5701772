"""Checks of a rule's inputs. Several rules share them."""

import math

import torch
from torch import Tensor

from trio_core.errors import OptionError, UnsupportedModel


def check_budget(budget: int, count: int) -> None:
    """Raise OptionError for a budget outside 1 … count. count: how many tokens there are."""
    if not 1 <= budget <= count:
        raise OptionError(f"budget {budget}: can keep 1 … {count} of {count} tokens")


def check_finite(name: str, *inputs: Tensor) -> None:
    """Raise OptionError if an input holds NaN or infinity. The host waits for the device once.

    name: what the inputs are, in the plural.
    inputs: floating-point tensors of any shape.
    """
    # An extreme is NaN if any value is, and infinite if any value is. So one number answers for all inputs.
    if not math.isfinite(sum(low.double() + high for low, high in map(torch.aminmax, inputs))):
        raise not_finite(name)


def not_finite(name: str) -> OptionError:
    """The error for inputs that are not finite. name: what they are, in the plural."""
    return OptionError(f"{name} hold NaN or infinity: the hidden states that entered the stage are broken")


def check_gradient(part: str, entered: Tensor, made: Tensor) -> Tensor:
    """Return `made`. Raise UnsupportedModel where autograd records `entered`, but cannot go back to it from `made`.

    part: the part of the model that made it, with its article.
    """
    if entered.requires_grad and not (made.requires_grad and _has_backward(entered, made)):
        raise UnsupportedModel(
            f"{part} gives no gradient (it may be quantised for inference only): choose a method that needs none, such "
            "as fastv or divprune"
        )
    return made


def _has_backward(entered: Tensor, made: Tensor) -> bool:
    """Whether every operator between two tensors has a backward pass."""
    seen, nodes = {entered.grad_fn}, [made.grad_fn]
    while nodes:
        if (node := nodes.pop()) is not None and node not in seen:
            if "NotImplemented" in node.name():
                return False
            seen.add(node)
            nodes += [before for before, _ in node.next_functions]
    return True
