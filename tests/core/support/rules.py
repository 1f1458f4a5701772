"""Methods of the user's own: what each of their calls is held to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import prune
from trio_core.methods.method import Method, Reference, registry
from trio_core.methods.view import Selection, View

GROUP = Group("Methods of one's own")


@dataclass(frozen=True, kw_only=True)
class Spoiled(Method):
    """Keeps the first tokens, until `spoil` is set.

    spoil: the indices [K] that it keeps instead, from the right ones.
    """

    spoil: list[Callable[[Tensor], Tensor]] = field(default_factory=list, hash=False, compare=False)

    name: ClassVar[str] = "spoiled"
    reference: ClassVar[Reference] = Reference(title="a method that breaks", kind="control")

    def select(self, view: View) -> Selection:
        """The first tokens."""
        kept = [torch.arange(sample.budget) for sample in view.samples]
        return Selection(tuple(self.spoil[0](one) if self.spoil else one for one in kept))


registry.pop("spoiled")  # it is no method of the library


def second_call(spoil: Callable[[Tensor], Tensor]) -> str:
    """The first forward is right; the second one, on the same model and with the same method, is not."""
    model, one, method = bench.model(), bench.sample(), Spoiled(retention=0.5, layers=bench.LAYERS)
    with prune(model, method) as trace:
        logits: Any = bench.forward(model, one).logits
        bench.prefill_is_right(trace, one, logits, same=False)
        method.spoil.append(spoil)
        bench.forward(model, one)


GROUP.refused("Indices that do not ascend, in the second call", lambda: second_call(lambda kept: kept.flip(0)))


GROUP.refused("One index several times, in the second call", lambda: second_call(lambda kept: torch.zeros_like(kept)))


@GROUP.refused("An index that is too large, in the second call")
def too_large() -> str:
    return second_call(lambda kept: torch.cat([kept[:-1], torch.tensor([32])]))


GROUP.refused("A negative index, in the second call", lambda: second_call(lambda kept: kept - 1))


@GROUP.refused("Another number of tokens than the budget, in the second call")
def too_few() -> str:
    return second_call(lambda kept: kept[:-1])
