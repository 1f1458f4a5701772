"""What holds for every method of the registry inside a real model, whatever its rule; and what each says of itself."""

from itertools import product

import pytest
import torch

from tests.core import tiny
from tests.core.methods import towers
from tests.core.methods.test_methods import BUILT_IN, FOR_PICTURES
from tests.core.models.test_families import CLOSE, apart
from trio_core import OptionError, methods
from trio_core.methods.fitprune import FitPrune
from trio_core.methods.method import Method, Stage
from trio_core.methods.view import Selection, Signal, View
from trio_core.rules.schedule import Schedule

REFUSED = {("prumerge", "llava_onevision"), ("prumerge", "qwen2_5_vl")}
"""What a method names as out of its reach."""
READERS = [name for name in FOR_PICTURES if Signal.ENCODER in methods.find(name).needs and name != "trio-ve"]
BLIND = {"grid", "random", "vtw"}
"""They look at nothing that a picture holds."""
every_family = pytest.mark.parametrize("family", tiny.fast_first(towers.FAMILIES, "llava"))


def methods_of(family: str) -> list[str]:
    """The methods that prune a family."""
    return [name for name in FOR_PICTURES if (name, family) not in REFUSED]


def made(name: str, retention: float) -> Method:
    return methods.find(name)(retention=retention)


# --- inside a model --------------------------------------------------------------------------------------------------


@every_family
def test_at_retention_1_a_method_gives_the_dense_model_to_the_last_bit(family):
    """In a padded batch. A small picture may keep all beside a large one that does not, and is left alone."""
    small, large = samples = tiny.pair(family)
    inputs, model = tiny.batch(samples), tiny.model(family)
    with torch.no_grad():
        dense, alone = (model(**one, use_cache=False).logits for one in (inputs, small))
    for name in methods_of(family):
        method = made(name, 1.0)
        pruned, trace = tiny.run(model, inputs, method)
        assert torch.equal(pruned, dense), name
        assert trace.realised_retention == 1.0, name
        if name == "vtw":  # it keeps all or nothing
            continue
        layers, count = method.default_layers(tiny.NUM_LAYERS), len(tiny.visual_rows(small))
        pruned, trace = tiny.run(model, inputs, name, budgets=(count,) * len(layers), layers=layers)
        assert trace.stages[0].kept[0].tolist() == list(range(count)), name
        assert len(trace.stages[-1].kept[1]) == count < len(tiny.visual_rows(large)), name
        assert apart(pruned[0, -1], alone[0, -1]) < CLOSE, name


@pytest.mark.parametrize(("budget", "side"), tiny.fast_first(product((1, 9, 31), ("left", "right")), (9, "left")))
def test_a_method_keeps_its_budget_in_order_leaves_its_input_alone_and_does_so_again(budget, side):
    model, samples = tiny.model("llava"), tiny.pair("llava")
    counts = [len(tiny.visual_rows(one)) for one in samples]
    for name in {*FOR_PICTURES} - {"vtw"}:
        layers = made(name, 1.0).default_layers(tiny.NUM_LAYERS)
        method = methods.find(name)(budgets=(budget,) * len(layers), layers=layers)
        watch(method)
        first = tiny.prefill(model, samples, method, side).stages
        torch.rand(7)  # nor does the global generator matter
        again = tiny.prefill(model, samples, method, side).stages
        assert tuple(stage.layer for stage in first) == layers, name
        for stage, same in zip(first, again, strict=True):
            for kept, other, count in zip(stage.kept, same.kept, counts, strict=True):
                assert torch.equal(kept, other), name
                assert len(kept) == min(budget, count) and (kept.diff() > 0).all(), name
                assert kept.dtype == torch.long and kept[0] >= 0 and kept[-1] < count, name
    assert all(weights.grad is None for weights in model.parameters())


def watch(method: Method) -> None:
    """From now on the method must leave what it sees as it is, and its scores and features must have their shapes."""
    select = method.select

    def watched(view: View) -> Selection:
        calls = view.signals.get(Signal.LAYERS, {}).values()
        seen = [view.hidden, view.valid, *(call.hidden for call in calls)]
        seen += [part for picture in view.pictures for part in (picture.rows, picture.number)]
        before = [part.clone() for part in seen]
        selection = select(view)
        assert all(map(torch.equal, seen, before)) and not any(part.requires_grad for part in seen), method
        for scores, picture in zip(selection.scores or (), view.pictures, strict=bool(selection.scores)):
            assert scores.shape == picture.rows.shape, method
        return selection

    object.__setattr__(method, "select", watched)  # a frozen dataclass


@pytest.mark.slow
@pytest.mark.usefixtures("uncompiled_flex")
@pytest.mark.parametrize("attention", tiny.fast_first(["eager", "flex_attention"], "flex_attention"))
def test_selection_does_not_depend_on_the_kernel(attention):
    """No method needs the model to keep attention maps: the rows that it reads are made beside whatever kernel runs."""
    one, models = tiny.sample("llava"), [tiny.model("llava", kernel) for kernel in ("sdpa", attention)]
    for name in FOR_PICTURES:
        ours, other = (tiny.run(model, one, made(name, 0.5))[1].stages for model in models)
        for stage, same in zip(ours, other, strict=True):
            assert stage.layer == same.layer and torch.equal(stage.kept[0], same.kept[0]), name


@pytest.mark.parametrize(
    ("family", "side"), tiny.fast_first(product(towers.FAMILIES, ("left", "right")), ("llava", "left"))
)
def test_selection_of_a_sample_does_not_depend_on_the_batch(family, side):
    """A padded batch keeps of each sample what it keeps of the sample alone."""
    model, samples = tiny.model(family), tiny.pair(family)
    for name in methods_of(family):
        method = made(name, 0.5)
        alone = [tiny.run(model, one, method) for one in samples]
        logits, together = tiny.run(model, tiny.batch(samples, side), method)
        for b, (its_own, trace) in enumerate(alone):
            kept = {stage.layer: stage.kept[b].tolist() for stage in together.stages}
            own = {stage.layer: stage.kept[0].tolist() for stage in trace.stages}
            for layer in sorted(kept.keys() - own.keys()):  # of another sample alone: this one keeps what it has
                own[layer] = own[max(earlier for earlier in own if earlier < layer)]
            assert kept == own, name
            assert apart(logits[b, together.places[b][-1]], its_own[0, -1]) < 5 * CLOSE, name


def test_broken_pictures_are_named():
    one = tiny.sample("llava")
    broken = {**one, "pixel_values": one["pixel_values"] * torch.nan}
    for name in {*FOR_PICTURES} - BLIND:
        with tiny.refused(OptionError, "NaN or infinity"):
            tiny.run(tiny.model("llava"), broken, made(name, 0.5))


def test_newlines_go_before_any_patch():
    """LLaVA-NeXT's large toy has 80 patches and 8 newlines."""
    model, one = tiny.model("llava_next"), tiny.pair("llava_next")[1]
    patches = sorted(number for crop in towers.crops_of_sample("llava_next", 1) for number in crop.numbers.values())
    for name in READERS:
        for budget in (81, 87):
            with tiny.refused(OptionError, f"^budget {budget}: .* 80 of 88 "):
                tiny.run(model, one, name, budgets=(budget,), layers=(0,))
        _, trace = tiny.run(model, one, name, budgets=(80,), layers=(0,))
        assert trace.stages[0].kept[0].tolist() == patches, name


# --- published schedules ---------------------------------------------------------------------------------------------

PUBLISHED = [
    *((name, (tokens,), (0,), tokens) for name in READERS for tokens in (192, 128, 64)),
    ("divprune", (64,), (0,), 64),
    ("fastv", (166,), (2,), 192),
    ("fastv", (98,), (2,), 128),
    ("fastv", (30,), (2,), 64),
    ("topv", (166,), (2,), 192),
    ("dart", (196,), (2,), 219.75),
    ("dart", (132,), (2,), 159.75),
    ("dart", (68,), (2,), 99.75),
    ("pact", (100,), (4,), None),
    ("prunevid", (288, 115), (0, 11), None),
    ("pyramiddrop", (288, 144, 72), (8, 16, 24), 270),
    ("trio", (92, 54, 22), (1, 10, 15), 64),
    ("trio-ve", (96, 32), (0, 16), 64),
    ("trio-ve", (192, 64), (0, 16), 128),
    ("trio-ve", (288, 96), (0, 16), 192),
    ("vtw", (0,), (16,), 288),
]
"""Budgets and layers that the papers or their code have for 576 tokens and 32 layers, and the average in tokens."""


@pytest.mark.parametrize(("name", "budgets", "layers", "average"), PUBLISHED)
def test_the_average_of_a_published_schedule_gives_its_budgets(name, budgets, layers, average):
    schedule = Schedule(layers, budgets, 576, 32)
    assert average is None or abs(schedule.layer_average * 576 - average) <= 0.5
    assert made(name, average / 576 if average else schedule.layer_average).schedule(576, 32) == schedule


def test_default_layers_of_other_depths():
    for name, depth, layers in (
        ("dart", 28, (2,)),
        ("pact", 28, (4,)),
        ("pact", tiny.NUM_LAYERS, (1,)),
        ("prunevid", 28, (0, 10)),
        ("prunevid", tiny.NUM_LAYERS, (0, 2)),
        ("pyramiddrop", 28, (7, 14, 21)),
        ("sparsevlm", 32, (3, 7, 16)),
        ("sparsevlm", 28, (3, 6, 14)),
        ("topv", 28, (2,)),
        ("trio-ve", 28, (0, 14)),
        ("trio-ve", 6, (0, 3)),
        ("trio-ve", 2, (0, 1)),
        ("vtw", 32, (16,)),
    ):
        assert made(name, 0.5).default_layers(depth) == layers, name
    assert FitPrune(retention=0.5).default_layers(28) == tuple(range(1, 28))
    assert methods.find("dart")(retention=132 / 576, budget_rule="final").schedule(576, 32).budgets == (132,)
    assert methods.find("prunevid")(retention=0.5, budget_rule="after-prune").schedule(576, 32).budgets == (288, 115)


# --- what a method says of itself ------------------------------------------------------------------------------------

CONTROLS = {"downsample", "grid", "lookahead", "random"}
NON_COMMERCIAL = {"divprune", "prunevid", "tome"}


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_method_says_where_it_is_from(name):
    cls, reference = methods.find(name), methods.find(name).reference
    known = reference.arxiv or reference.repository or "no canonical source" in reference.title
    assert known or "from the description" in reference.note
    assert not reference.repository or len(reference.commit) == 40
    assert cls.stage in Stage
    assert (reference.kind == "control") == (name in CONTROLS)
    assert (
        ("non-commercial" in reference.remark) == (name in NON_COMMERCIAL) == reference.licence.startswith("CC BY-NC")
    )
    assert "CC BY" not in reference.note  # the licence has a field of its own
    summary = cls.summary()
    assert summary.endswith(".") and summary.count(". ") == 0 and len(summary) <= 100
    _, *rest = (cls.__doc__ or "").splitlines()
    assert not rest or not rest[0].strip()
