"""What holds for every method of the registry inside a real model, whatever its rule."""

import pytest
import torch
from torch import Tensor

from tests.core import tiny
from tests.core.methods.test_methods import BUILT_IN
from tests.core.rules.drawn import Waits
from trio_core import OptionError, TrioError, methods, prune
from trio_core.methods.method import Method, Stage
from trio_core.spans import listening

FAMILIES = ("llava", "llava_next", "qwen2_5_vl")
REFUSED = {("prumerge", "qwen2_5_vl")}
"""What a method names as out of its reach."""


def made(name: str, retention: float) -> Method:
    return methods.find(name)(retention=retention)


def logits(family: str, attention: str, method: Method, samples: list[dict[str, Tensor]]):
    """Last logits and the trace of one prefill."""
    model = tiny.model(family, attention)
    with torch.inference_mode(), prune(model, method) as trace:
        found = model(**tiny.batch(samples), use_cache=False).logits[:, -1]
    return found, trace


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", BUILT_IN)
def test_it_runs_or_says_why_not(name, family):
    samples = [tiny.sample(family)]
    if (name, family) in REFUSED:
        with pytest.raises(TrioError, match=r"^[^\n]+$"):
            logits(family, "sdpa", made(name, 0.5), samples)
        return
    found, trace = logits(family, "sdpa", made(name, 0.5), samples)
    assert found.isfinite().all()
    assert 0 < trace.realised_retention < 1


@pytest.mark.parametrize("name", BUILT_IN)
def test_nothing_dropped_is_the_dense_model_to_the_last_bit(name):
    samples = [tiny.sample("llava", "small", seed=1), tiny.sample("llava")]
    model = tiny.model("llava", "sdpa")
    with torch.inference_mode():
        dense = model(**tiny.batch(samples), use_cache=False).logits[:, -1]
    found, trace = logits("llava", "sdpa", made(name, 1.0), samples)
    assert torch.equal(found, dense)
    assert trace.realised_retention == 1.0


@pytest.mark.usefixtures("uncompiled_flex")
@pytest.mark.parametrize("attention", ["eager", "flex_attention"])
@pytest.mark.parametrize("name", BUILT_IN)
def test_selection_does_not_depend_on_the_kernel(name, attention):
    """No method needs the model to keep attention maps: the rows that it reads are made beside whatever kernel runs."""
    sdpa, other = (
        logits("llava", kernel, made(name, 0.5), [tiny.sample("llava")])[1] for kernel in ("sdpa", attention)
    )
    assert [stage.layer for stage in other.stages] == [stage.layer for stage in sdpa.stages]
    for one, same in zip(other.stages, sdpa.stages, strict=True):
        assert torch.equal(one.kept[0], same.kept[0])


@pytest.mark.parametrize("name", BUILT_IN)
def test_selection_of_a_sample_does_not_depend_on_the_batch(name):
    large, small = tiny.sample("llava"), tiny.sample("llava", "small", seed=1)
    _, together = logits("llava", "sdpa", made(name, 0.5), [large, small])
    for place, one in enumerate((large, small)):
        _, alone = logits("llava", "sdpa", made(name, 0.5), [one])
        kept = {stage.layer: stage.kept[place].tolist() for stage in together.stages}
        assert kept == {stage.layer: stage.kept[0].tolist() for stage in alone.stages}


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_host_does_not_wait_for_each_token(name):
    """Nearly twice as many tokens stay, and it waits no more often: counted inside the selections."""

    def waits(budget_share: float) -> int:
        method = made(name, budget_share)
        model, one = tiny.model("llava", "sdpa"), tiny.batch([tiny.sample("llava")])
        counter, seen = Waits(), []

        def note(span: str, _entering: bool) -> None:
            if span == "selection":
                seen.append(counter.counts.total())

        with torch.inference_mode(), prune(model, method), counter, listening(note):
            model(**one, use_cache=False)
        stages = len(seen) // 2
        return max(seen[2 * i + 1] - seen[2 * i] for i in range(stages)) if stages else 0

    few, many = waits(0.5), waits(0.9)
    assert many <= few + 4 and few <= many + 4


def test_every_method_says_where_it_is_from():
    for name in BUILT_IN:
        reference = methods.find(name).reference
        known = reference.arxiv or reference.repository or "no canonical source" in reference.title
        assert known or "from the description" in reference.note, name
        assert not reference.repository or len(reference.commit) == 40, name
        assert methods.find(name).stage in Stage


@pytest.mark.parametrize(
    ("code", "why"), [("raise ValueError('\\n\\n  the reason\\nmore')", "the reason"), ("raise SystemExit(1)", "1")]
)
def test_a_module_that_fails_to_import_is_refused_in_one_line(tmp_path, monkeypatch, code, why):
    (tmp_path / "fails_to_import.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(OptionError, match=rf"cannot be imported \({why}\)"):
        methods.find("fails_to_import:Mine")
