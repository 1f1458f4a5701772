"""Methods of the user's own: what each of their calls is held to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

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

    spoil: the indices [K] that it keeps instead, from the right ones. features: the shape of merged ones, from K.
    """

    spoil: list[Callable[[Tensor], Tensor]] = field(default_factory=list, hash=False, compare=False)
    features: Callable[[int], tuple[int, int]] | None = None

    name: ClassVar[str] = "spoiled"
    reference: ClassVar[Reference] = Reference(title="a method that breaks", kind="control")

    def select(self, view: View) -> Selection:
        """The first tokens."""
        kept = [torch.arange(sample.budget) for sample in view.samples]
        features = None if self.features is None else tuple(torch.ones(self.features(len(one))) for one in kept)
        return Selection(tuple(self.spoil[0](one) if self.spoil else one for one in kept), features=features)


registry.pop("spoiled")  # it is no method of the library


def second_call(spoil: Callable[[Tensor], Tensor]) -> None:
    """The first forward is right; the second one, on the same model and with the same method, is not."""
    model, one, method = bench.model(), bench.sample(), Spoiled(retention=0.5, layers=bench.LAYERS)
    with prune(model, method) as trace:
        bench.prefill_is_right(trace, one, bench.forward(model, one).logits, same=False)
        method.spoil.append(spoil)
        bench.forward(model, one)


for _title, _spoil in (
    ("Indices that do not ascend", lambda kept: kept.flip(0)),
    ("One index several times", torch.zeros_like),
    ("An index that is too large", lambda kept: torch.cat([kept[:-1], torch.tensor([32])])),
    ("A negative index", lambda kept: kept - 1),
    ("Another number of tokens than the budget", lambda kept: kept[:-1]),
):
    GROUP.refused(f"{_title}, in the second call", partial(second_call, _spoil))
for _title, _shape in (
    ("Merged features of too few tokens", lambda _: (1, 32)),
    ("Merged features that are too narrow", lambda kept: (kept, 1)),
):
    GROUP.refused(
        _title,
        bench.forward,
        method=Spoiled(retention=0.5, layers=bench.LAYERS, features=_shape),
    )
