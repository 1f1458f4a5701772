"""What a method may look at, and what it says when it looks at more."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch

from tests.core import tiny
from trio_core import OptionError, Reference, ScoreMethod, Signal
from trio_core.methods.view import Picture, View
from trio_core.rules.schedule import Schedule


def view_of(valid: list[str], span: tuple[int, int] = (0, 1)) -> View:
    """`x` marks a token, `.` padding; the picture stands at the places of `span` in every sample."""
    mask = torch.tensor([[mark == "x" for mark in row] for row in valid])
    rows = torch.arange(*span)
    pictures = tuple(
        Picture(rows, torch.arange(len(rows)), 1, int(one[span[1] :].sum()), Schedule((1,), (1,), len(rows), 2))
        for one in mask
    )
    return View(1, torch.zeros(*mask.shape, 2), mask, not bool(mask.all()), pictures)


def test_padding_on_either_side_and_holes_are_no_rows():
    view = view_of(["xxxxxxxx", "x..xxxxx", "xxxxxx..", "xxx.x.xx"])
    ((last, samples, _),) = view.supervised_groups(3, "last")
    assert last.tolist() == [[5, 6, 7], [5, 6, 7], [3, 4, 5], [4, 6, 7]] and samples == (0, 1, 2, 3)
    ((shifted, _, _),) = view.supervised_groups(3, "shifted")
    assert shifted.tolist() == [[4, 5, 6], [4, 5, 6], [2, 3, 4], [2, 4, 6]]


def test_samples_with_little_text_after_the_picture_form_groups_with_fewer_rows():
    view = view_of(["..xxxxxx", "xxxxxxx.", "xxxxxxxx"], span=(2, 4))  # four, three and four words after the picture
    (whole, whole_samples, whole_notes), (few, few_samples, few_notes) = view.supervised_groups(4, "last")
    assert (whole_samples, whole_notes) == ((0, 2), ())
    assert whole[[0, 2]].tolist() == [[4, 5, 6, 7], [4, 5, 6, 7]]
    assert (few_samples, few[1].tolist()) == ((1,), [4, 5, 6])
    assert "only 3 supervised" in few_notes[0]
    ((rows, samples, _),) = view.supervised_groups(2, "shifted")
    assert samples == (0, 1, 2) and rows.tolist() == [[5, 6], [4, 5], [5, 6]]
    with pytest.raises(OptionError, match="rows 'shifted': too little text"):
        list(view_of(["xxxxx"], span=(2, 4)).supervised_groups(4, "shifted"))


# --- signals ---------------------------------------------------------------------------------------------------------

READS = {
    Signal.LAYERS: lambda view: view.probed("next"),
    Signal.READOUT: lambda view: view.readout,
    Signal.ENCODER: lambda view: view.encoder,
    Signal.EMBEDDINGS: lambda view: view.embeddings,
    Signal.NORM: lambda view: view.norm,
}


@pytest.mark.parametrize("signal", READS)
def test_a_signal_that_is_not_declared_says_which_to_declare(signal):
    signals: dict[Signal, Any] = {other: None for other in Signal if other is not signal}
    with tiny.refused(OptionError, rf"declare Signal\.{signal.name} in its `needs`$"):
        READS[signal](tiny.view(4, 2, signals))


# --- a method that scores --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ByNorm(ScoreMethod):
    """Scores tokens by their norm: all tokens at once, or sample by sample."""

    together: bool = True
    reference: ClassVar[Reference] = Reference(title="none")

    def score(self, view: View) -> torch.Tensor | list[torch.Tensor]:
        if self.together:
            return view.hidden.norm(dim=-1)
        return [sample.features.norm(dim=-1) for sample in view.samples]


@pytest.mark.parametrize("together", [True, False])
def test_a_scorer_keeps_the_highest_scores_of_each_sample(together):
    view = view_of(["..xxxxxx", "xxxxxxx.", "xxxxxxxx"], span=(2, 5))
    view = replace(view, hidden=torch.randn(3, 8, 2))
    selection = ByNorm(retention=0.5, together=together).select(view)
    assert selection.scores is not None and selection.features is None
    for sample in view.samples:
        norms = sample.features.norm(dim=-1)
        assert torch.equal(selection.scores[sample.index], norms)
        best = norms.topk(sample.budget).indices.sort().values
        assert torch.equal(selection.kept[sample.index], best)
