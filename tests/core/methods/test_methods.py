"""Methods of the user's own: how they are found, and what they are refused for."""

from importlib.metadata import EntryPoint, EntryPoints
from unittest.mock import patch

import pytest

from tests.core import tiny
from trio_core import OptionError, Trio, TrioError, methods
from trio_core.errors import MethodError
from trio_core.methods.method import Method
from trio_core.methods.method import registry as all_methods
from trio_core.methods.view import Signal

BUILT_IN = sorted(name for name, cls in all_methods.items() if cls.__module__.startswith("trio_core.methods."))
FOR_PICTURES = [
    name for name in BUILT_IN if all_methods[name].media != "videos" and Signal.PIXELS not in all_methods[name].needs
]
"""Those that run on LLaVA-1.5. A tower that is thinned out has its own laws: `tests/core/models/test_thin_tower.py`."""


@pytest.fixture(autouse=True)
def registry_as_it_was():
    """What a test registers is forgotten after it."""
    with patch.dict(all_methods):
        yield


# --- methods of the user's own ---------------------------------------------------------------------------------------

OWN = '''
from dataclasses import dataclass
from typing import ClassVar
import torch
from trio_core import Method, Reference, ScoreMethod, Selection

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

class Bare(ScoreMethod):
    def score(self, view):
        return [s.features.float().norm(dim=-1) for s in view.samples]

class Raises(Bare):
    def score(self, view):
        return [][0]

class Forgets(Bare):
    def score(self, view):
        super().score(view)

class Empty(Method):
    def select(self, view):
        pass

class Lists(Method):
    def select(self, view):
        return Selection(tuple(list(range(s.budget)) for s in view.samples))

class Floats(Method):
    def select(self, view):
        return Selection(tuple(torch.arange(s.budget).float() for s in view.samples))

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
    monkeypatch.setattr(methods, "entry_points", lambda **which: EntryPoints([entry]).select(**which))
    assert "mine" in methods.names()
    assert methods.find("mine").__name__ == "First"
    assert methods.find("trio") is Trio


def test_a_path_that_leads_to_no_method_is_refused(own):
    for path, message in (
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
    ):
        with pytest.raises(OptionError, match=message) as caught:
            methods.find(path)
        assert path in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_method_needs_no_more_than_its_rule(own):
    model, one = tiny.model("llava"), tiny.sample("llava")
    _, trace = tiny.run(model, one, f"{own}:Bare", retention=0.5)
    assert methods.find(f"{own}:Bare").reference.remark == ""
    assert trace.stages
    joined = methods.find(f"visionzip+{own}:Bare")
    assert joined.reference.title.startswith(methods.find("visionzip").reference.title)


@pytest.mark.parametrize(
    ("fact", "says"),
    [
        ({"reference": "me, 2026"}, "reference = 'me, 2026' of method here:Odd must be a trio_core.Reference"),
        ({"reference": None}, "reference = None .* must be a trio_core.Reference"),
        ({"name": 3}, "name = 3 .* must be a word"),
        ({"name": "mine+yours"}, "name = 'mine.yours' .* must be a word"),
        ({"stage": "nowhere"}, "stage = 'nowhere' .* must be a trio_core.Stage"),
        ({"needs": {"layers"}}, "needs = .* must be a frozenset of trio_core.Signal"),
        ({"media": "sounds"}, "media = 'sounds' .* must be one of pictures, videos, both"),
        ({"paper_layers": "2"}, "paper_layers = '2' .* must be a tuple of layers"),
        ({"proportion": (0,)}, "proportion = .* must be a tuple of whole numbers above 0"),
    ],
)
def test_a_wrong_fact_is_named_when_the_class_is_made(fact, says):
    """It would fail late, after a measurement."""
    with pytest.raises(OptionError, match=says):
        type("Odd", (Method,), {"__module__": "here", **fact})


@pytest.mark.parametrize("by", ["", "visionzip+"])
@pytest.mark.parametrize(
    ("cls", "says"),
    [
        ("Raises", "method own_pruning:Raises raised IndexError: list index out of range"),
        ("Forgets", "method own_pruning:Forgets raised TypeError: 'NoneType' object is not subscriptable"),
        ("Empty", "method '.*' returned NoneType from `select`: return a trio_core.Selection"),
        ("Lists", "method '.*' kept indices of type list in sample 0, .*: give a tensor of torch.int64"),
        ("Floats", "method '.*' kept indices of type torch.float32 in sample 0, .*: give a tensor of torch.int64"),
    ],
)
def test_an_error_of_a_method_names_the_method(own, cls, says, by):
    with pytest.raises(MethodError if "raised" in says else TrioError, match=f"^{says}$"):
        tiny.run(tiny.model("llava"), tiny.sample("llava"), f"{by}{own}:{cls}", retention=0.5)


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
