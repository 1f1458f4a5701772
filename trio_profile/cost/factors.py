"""Overhead factors: what the paper calls γ, assumed, declared and counted."""

from typing import Literal

from trio_profile.records.record import Record

Factor = Literal["assumed", "declared", "autograd", "tail", "counted"]
"""The names of overhead factors: the fields of `Gammas`."""


class FormulaTotal(Record):
    """The work by the paper's formula with one overhead factor in place of γ.

    factor: which one.
    value: of the factor.
    fastv_macs: F_inf + value · Σ f(V).
    fastv_saved: 1 − fastv_macs / (L · f(V0)).
    """

    factor: Factor
    value: float
    fastv_macs: int
    fastv_saved: float


class Gammas(Record):
    """Overhead factors: work of the selections, divided by one forward of each layer that they look at, with text.

    The paper's γ is such a factor. Its appendix has γ = 1 + β, so a factor below 1 is none.

    assumed: the γ of the claim.
    declared: γ by the method's own formula.
    autograd: γ of TRIO with the saliency `autograd`, the paper's procedure; None for other methods.
    tail: γ of TRIO with the saliency `tail`, the faster procedure; None for other methods.
    counted: γ of the counted work; None if nothing was counted.
    """

    assumed: float
    declared: float
    autograd: float | None = None
    tail: float | None = None
    counted: float | None = None
