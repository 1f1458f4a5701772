"""Laws over the whole registry, and methods of the user's own."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, EntryPoints
from itertools import product
from typing import Any, ClassVar

import pytest
import torch

from tests.core import tiny
from trio_core import OptionError, Trio, TrioError, methods, prune
from trio_core.methods.method import Method, Reference
from trio_core.methods.method import registry as all_methods
from trio_core.methods.view import Selection, Signal, View

BUILT_IN = sorted(name for name, cls in all_methods.items() if cls.__module__.startswith("trio_core.methods."))


@pytest.fixture(autouse=True)
def registry_as_it_was(monkeypatch):
    """What a test registers is forgotten after it."""
    before = dict(all_methods)
    yield
    all_methods.clear()
    all_methods.update(before)


# --- laws ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def every_method() -> Iterator[list[Method]]:
    with torch.no_grad():  # as `prune` calls it
        yield [methods.find(name)(retention=0.5) for name in BUILT_IN]


def test_a_method_keeps_exactly_its_budget_in_order(every_method):
    budgets = ((1, 1, 1), (5, 4, 12), (11, 8, 3))
    for options in product(budgets, ("left", "right"), (torch.float32, torch.float64)):
        view = tiny.toy_view(**dict(zip(("budgets", "side", "dtype"), options, strict=True)))
        for method in every_method:
            check_selection(method, view, method.select(view))


def check_selection(method: Method, view: View, selection: Selection) -> None:
    """A selection keeps the budgets, ascending, and its features and scores have the shapes that go with them."""
    assert len(selection.kept) == len(view.pictures), method
    for kept, picture in zip(selection.kept, view.pictures, strict=True):
        # VTW's stages keep all of a picture or nothing of it; its schedule asks for nothing between.
        budget = picture.budget if method.name != "vtw" or picture.budget == len(picture.rows) else 0
        assert len(kept) == budget and kept.dtype == torch.long, method
        assert (kept.diff() > 0).all() and ((kept >= 0) & (kept < len(picture.rows))).all(), method
    if selection.features is not None:
        assert [part.shape for part in selection.features] == [(p.budget, 6) for p in view.pictures], method
    if selection.scores is not None:
        assert [part.shape for part in selection.scores] == [p.rows.shape for p in view.pictures], method


def test_a_full_budget_keeps_everything(every_method):
    view = tiny.toy_view(budgets=(12, 9, 12))
    for method in every_method:
        kept = [indices.tolist() for indices in method.select(view).kept]
        assert kept == [[*range(len(picture.rows))] for picture in view.pictures], method


@pytest.mark.parametrize("samples", [None, [0]], ids=["padded", "one"])
def test_the_input_is_left_alone(every_method, samples):
    """A method may see one sample, which has no padding, through views of the model's own tensors."""
    view = tiny.toy_view(samples=samples)
    calls = view.signals[Signal.LAYERS].values()
    seen = (view.hidden, view.valid, *(call.hidden for call in calls))
    seen += tuple(part for picture in view.pictures for part in (picture.rows, picture.number))
    before = [part.clone() for part in seen]
    for method in every_method:
        method.select(view)
        assert all(torch.equal(part, was) for part, was in zip(seen, before, strict=True)), method
        assert not any(part.requires_grad for part in seen), method
        assert all(weights.grad is None for call in calls for weights in call.run.func.parameters()), method


def test_the_same_seed_gives_the_same_answer(every_method):
    for method in every_method:
        first = method.select(tiny.toy_view()).kept
        torch.rand(7)  # nor does the global generator matter
        again = method.select(tiny.toy_view()).kept
        assert all(map(torch.equal, first, again)), method


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_sample_is_judged_without_its_neighbours(every_method, side):
    for method, b in product(every_method, range(3)):
        together, alone = method.select(tiny.toy_view(side=side)), method.select(tiny.toy_view(samples=[b]))
        assert torch.equal(together.kept[b], alone.kept[0]), method
        if alone.features is not None:
            assert torch.equal(together.features[b], alone.features[0]), method
        if alone.scores is not None:
            # TRIO's loss is a mean over the batch: a sample's scores are its own up to a factor
            ours, its_own = (scores / scores.sum() for scores in (together.scores[b], alone.scores[0]))
            assert torch.allclose(ours, its_own, rtol=1e-9), method


# --- methods of the user's own ---------------------------------------------------------------------------------------

OWN = '''
from dataclasses import dataclass
from typing import ClassVar
import torch
from trio_core import Method, Reference
from trio_core import Selection

@dataclass(frozen=True, kw_only=True)
class First(Method):
    """Keep the first tokens, or so many more."""

    extra: int = 0
    name: ClassVar[str] = "first"
    reference: ClassVar[Reference] = Reference(title="none")

    def select(self, view):
        return Selection(tuple(torch.arange(p.budget + self.extra) for p in view.pictures))

class Undefined(Method):
    pass

not_a_class = 3
'''


@pytest.fixture
def own(tmp_path, monkeypatch) -> str:
    """A module of the user's own, importable by the name returned."""
    (tmp_path / "own_pruning.py").write_text(OWN)
    (tmp_path / "own_broken.py").write_text("import torch\n1 / 0\n")
    (tmp_path / "own_unparsable.py").write_text("def\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "own_pruning"
    for name in ("own_pruning", "own_broken", "own_unparsable"):
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)


def test_a_method_of_ones_own_by_its_path(own):
    model, one = tiny.model("llava"), tiny.sample("llava")
    _, trace = tiny.run(model, one, f"{own}:First", retention=0.5, layers=(2,))
    (stage,) = trace.stages
    assert stage.kept[0].tolist() == list(range(stage.tokens_after))
    assert stage.scores is None
    assert "first" in methods.names()


def test_a_method_of_ones_own_by_entry_point(own, monkeypatch):
    entry = EntryPoint("mine", f"{own}:First", "trio_core.methods")
    monkeypatch.setattr(methods.finding, "entry_points", lambda group: EntryPoints([entry]).select(group=group))
    assert "mine" in methods.names()
    assert methods.find("mine").__name__ == "First"
    assert methods.find("trio") is Trio


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_package:Thing", "No module named 'no_such_package'"),
        ("own_pruning:Nothing", "has no attribute 'Nothing'"),
        ("own_pruning:", "cannot be imported"),
        (":First", "cannot be imported"),
        (".own_pruning:First", "cannot be imported"),
        ("own_broken:First", "division by zero"),
        ("own_unparsable:First", "invalid syntax"),
        ("own_pruning:not_a_class", "is not a subclass"),
        ("own_pruning:dataclass", "is not a subclass"),
        ("own_pruning:Undefined", "that defines `select`"),
        ("trio_core.methods.method:Method", "that defines `select`"),
        ("trio_core.rules.schedule:Schedule", "is not a subclass"),
    ],
)
def test_a_path_that_leads_to_no_method_is_refused(own, path, message):
    with pytest.raises(OptionError, match=message) as caught:
        methods.find(path)
    assert path in str(caught.value)
    assert "\n" not in str(caught.value)


@dataclass(frozen=True, kw_only=True)
class Merging(Method):
    """Keeps the first tokens, and puts features of any shape in their places."""

    shape: Any = None

    reference: ClassVar[Reference] = Reference(title="none")

    def select(self, view: View) -> Selection:
        (picture,) = view.pictures
        return Selection((torch.arange(picture.budget),), features=(torch.ones(self.shape(picture.budget)),))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (lambda _: (1, 32), r"gave features of shapes \[\(1, 32\)\] after layer 1; expected are"),
        (lambda kept: (kept, 1), r"gave features of shapes \[\((\d+), 1\)\] .* expected are \[\(\1, 32\)\]"),
    ],
)
def test_merged_features_of_another_shape_are_refused(shape, message):
    model, one = tiny.model("llava"), tiny.sample("llava")
    with (
        torch.no_grad(),
        prune(model, Merging(retention=0.5, layers=(1, 3), shape=shape)),
        tiny.refused(TrioError, f"method '' {message}"),
    ):
        model(**one)


def test_a_subclass_without_a_name_leaves_its_parents_alone():
    class Mine(Trio):
        pass

    assert methods.find("trio") is Trio
    assert Mine(retention=0.5).name == "trio"


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(OptionError, match=r"method name 'trio' of .* is taken by trio_core.methods.trio"):

        class Impostor(Method):
            name = "trio"

    assert methods.find("trio") is Trio
