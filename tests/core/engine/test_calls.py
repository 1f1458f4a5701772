"""Names in a call that prune() does not know: renamed by a release of transformers, they end in one line."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest
import torch
from transformers import Cache, DynamicCache, PreTrainedModel

from tests.core import tiny
from trio_core import UnsupportedInput, UnsupportedModel, prune
from trio_core.engine import calls
from trio_core.methods.random import Random

METHOD = Random(retention=0.5)

Rename = Callable[[dict[str, Any]], dict[str, Any]]


def renamed(part: torch.nn.Module, call: Rename, back: Rename) -> None:
    """Give a module's class another name for an argument: its caller uses that one, and its forward takes it."""
    own: Any = type(part)

    class Renamed(own):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return super().__call__(*args, **call(kwargs))

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return super().forward(*args, **back(kwargs))

    part.__class__ = Renamed


def swap(old: str, new: str) -> tuple[Rename, Rename]:
    """Rename one argument in a call, and back."""

    def change(before: str, after: str) -> Rename:
        return lambda kwargs: {after if name == before else name: value for name, value in kwargs.items()}

    return change(old, new), change(new, old)


def decoder_of(model: PreTrainedModel) -> Any:
    return model.get_submodule("model.language_model")


def layers_of(model: PreTrainedModel) -> Any:
    return decoder_of(model).layers


@pytest.mark.parametrize(
    ("parts", "old"),
    (
        *((layers_of, name) for name in (tiny.CACHE, "attention_mask", "position_embeddings", "position_ids")),
        *((lambda model: [decoder_of(model)], name) for name in ("attention_mask", "use_cache")),
        *((lambda model: [model], name) for name in ("attention_mask", "use_cache")),
    ),
)
@pytest.mark.parametrize("padded", (False, True))
def test_a_part_that_renames_an_argument_is_refused(parts, old, padded):
    """Also a mask that is None: without padding sdpa gets none, and unequal pictures need one after pruning."""
    model, one = tiny.variant("llava"), {**tiny.sample("llava"), "attention_mask": None}
    for part in parts(model):
        renamed(part, *swap(old, f"new_{old}"))
    message = f"new_{old}: prune|gets no '{old}'"
    with tiny.refused((UnsupportedInput, UnsupportedModel), message), prune(model, METHOD):
        model(**tiny.batch(tiny.pair("llava")) if padded else one, use_cache=True)


def test_hidden_states_under_another_name_are_missed():
    model = tiny.variant("llava")
    layer = decoder_of(model).layers[2]
    own: Any = type(layer)

    class ByKeyword(own):
        def __call__(self, hidden: torch.Tensor, **kwargs: Any) -> Any:
            return super().__call__(x=hidden, **kwargs)

        def forward(self, x: torch.Tensor, **kwargs: Any) -> Any:
            return super().forward(x, **kwargs)

    layer.__class__ = ByKeyword
    with tiny.refused(UnsupportedModel, "ByKeyword is called without 'hidden_states'"), prune(model, METHOD):
        model(**tiny.sample("llava"))


def test_arguments_of_a_layer_by_position_are_refused():
    model = tiny.variant("llava")
    layer = decoder_of(model).layers[3]
    own: Any = type(layer)

    class ByPosition(own):
        def __call__(self, hidden: torch.Tensor, **kwargs: Any) -> Any:
            return super().__call__(hidden, kwargs.pop("attention_mask"), kwargs.pop("position_ids"), **kwargs)

    layer.__class__ = ByPosition
    with tiny.refused(UnsupportedInput, "argument 3 by position: prune"), prune(model, METHOD):
        model(**tiny.sample("llava"))


def test_a_decoder_with_an_argument_that_we_do_not_know_is_refused():
    model = tiny.variant("llava")
    decoder = decoder_of(model)
    renamed(
        decoder,
        lambda kwargs: {**kwargs, "per_layer_inputs": torch.ones(1)},
        lambda kwargs: {name: value for name, value in kwargs.items() if name != "per_layer_inputs"},
    )
    with tiny.refused(UnsupportedInput, "per_layer_inputs: prune"), prune(model, METHOD):
        model(**tiny.sample("llava"))


def with_output(change: Callable[[Any], Any]) -> PreTrainedModel:
    """LLaVA's toy, whose decoder returns what `change` makes of its output."""

    def changed(_decoder: Any, _args: Any, output: Any) -> Any:
        made = change(output)
        return type(output)(made) if isinstance(made, dict) else made

    model = tiny.variant("llava")
    decoder_of(model).register_forward_hook(changed)
    return model


@pytest.mark.parametrize(
    ("change", "message"),
    (
        (lambda out: {**out, "states": out.hidden_states}, "LlamaModel returns a field 'states', which prune"),
        (lambda out: (out.last_hidden_state,), "LlamaModel returns tuple, which prune"),
        # as if a decoder gave its layers the cache past their arguments
        (lambda out: {**out, tiny.CACHE: DynamicCache()}, "filled a cache that its decoder layers did not get"),
    ),
    ids=("a field that we do not know", "no fields", "a cache that the layers filled unseen"),
)
def test_an_output_of_another_kind_is_refused(change, message):
    model = with_output(change)
    with tiny.refused(UnsupportedModel, message), prune(model, METHOD):
        model(**tiny.sample("llava"), output_hidden_states=True, use_cache=True)


def test_a_cache_that_is_asked_for_and_not_there_is_refused():
    model = tiny.variant("llava")
    for layer in decoder_of(model).layers:
        renamed(layer, lambda kwargs: calls.without_cache(kwargs), lambda kwargs: kwargs)
    model.register_forward_hook(lambda _model, _args, output: type(output)(logits=output.logits))
    with tiny.refused(UnsupportedModel, "filled a cache that its decoder layers did not get"), prune(model, METHOD):
        model(**tiny.sample("llava"), use_cache=True)


@pytest.mark.parametrize("form", (lambda cache: cache, lambda cache: [cache], lambda cache: {"self": cache}))
def test_a_step_on_a_cache_under_another_name_is_no_new_prompt(form):
    """Also where the model passes it on, as it does with arguments that it does not know."""
    model = tiny.variant("llava")
    with torch.no_grad(), prune(model, "divprune", retention=0.5) as trace:
        cache = calls.cache_of(model(**tiny.sample("llava"), use_cache=True))
        stages = [*trace.stages]
        with tiny.refused(UnsupportedInput, "memory: Cache is no argument of a model that prune"):
            model(input_ids=torch.tensor([[5]]), memory=form(cache))
        assert trace.stages == stages


@pytest.mark.parametrize("method", ("divprune", "random"))
def test_a_cache_that_the_model_ignores_is_refused(method):
    """5.23 takes `cache=` without a word and leaves it aside, so that a step on it would be a new prompt."""
    model, one = tiny.variant("llava"), tiny.sample("llava")
    renamed(decoder_of(model), calls.without_cache, lambda kwargs: kwargs)
    given = {tiny.CACHE: DynamicCache(config=model.config)}
    message = f"decoder layer 1 of .* gets another cache .*: pass it as {tiny.CACHE!r}"
    with tiny.refused(UnsupportedModel, message), prune(model, method, retention=0.5):
        model(**one, **given)


@pytest.mark.skipif(tiny.CACHE == "cache", reason="5.24 reads both names")
def test_a_step_on_a_cache_under_the_later_name_is_refused():
    model, one = tiny.model("llava"), tiny.sample("llava")
    with torch.no_grad(), prune(model, METHOD):
        cache = calls.cache_of(model(**one, use_cache=True))
        with tiny.refused(UnsupportedModel, "gets another cache .*: pass it as 'past_key_values'"):
            model(input_ids=torch.tensor([[5]]), cache=cache)


@pytest.mark.skipif(tiny.CACHE == "cache", reason="5.24 keeps the cache where nothing needs a gradient")
def test_a_cache_that_gradient_checkpointing_takes_away_is_refused():
    model = tiny.variant("llava").train()
    model.gradient_checkpointing_enable()
    with tiny.refused(UnsupportedInput, "new prompt; gradient check.*: call model.eval"), prune(model, METHOD):
        tiny.generate(model, tiny.sample("llava"), 2)
    with prune(model.eval(), METHOD) as trace:
        tiny.generate(model, tiny.sample("llava"), 2)
    assert trace.stages


@pytest.mark.parametrize("number", (1, 4))
def test_a_step_of_which_a_layer_gets_no_cache_is_refused(number):
    model, one = tiny.variant("llava"), tiny.sample("llava")
    with torch.no_grad(), prune(model, METHOD):
        cache = calls.cache_of(model(**one, use_cache=True))
        renamed(decoder_of(model).layers[number - 1], calls.without_cache, lambda kwargs: kwargs)
        with tiny.refused(UnsupportedModel, f"decoder layer {number} of .* gets another cache"):
            model(input_ids=torch.tensor([[5]]), **{tiny.CACHE: cache})


@pytest.mark.parametrize("name", calls.CACHE)
def test_a_step_by_hand_works_by_the_old_name_and_by_the_new_one(name):
    """Unless the release has only the other one."""
    model, one = tiny.model("llava"), tiny.sample("llava")
    if name not in ("past_key_values", tiny.CACHE):
        pytest.skip("this release has only the other name")
    with torch.no_grad(), prune(model, "divprune", retention=0.5) as trace:
        cache = calls.cache_of(model(**one, use_cache=True))
        tokens = {len(kept) for stage in trace.stages for kept in stage.kept}
        model(input_ids=torch.tensor([[5]]), **{name: cache})
        assert not any("without visual tokens" in note for note in trace.notes)
        assert {len(kept) for stage in trace.stages for kept in stage.kept} == tokens


def test_labels_that_gemma_4_hands_to_its_decoder_are_known():
    """The loss is computed from logits at their own places."""
    model, one = tiny.model("gemma4"), tiny.sample("gemma4")
    labels = torch.full_like(one["input_ids"], -100).index_fill(1, torch.tensor([-2, -1]), 5)
    with torch.no_grad(), prune(model, METHOD):
        output = model(**one, labels=labels)
    expected = torch.nn.functional.cross_entropy(output.logits[0, -3:-1], labels[0, -2:])
    assert torch.allclose(output.loss, expected)


@pytest.mark.parametrize(
    ("family", "change"),
    (
        ("llava_next", lambda one: {**one, "image_sizes": one["image_sizes"].numpy()}),
        # Stop strings need a tokenizer, and generate() leaves it among the model's arguments.
        ("llava", lambda one: {**one, "tokenizer": object()}),
        # Nothing is dropped of text, and so nothing can be misread.
        ("llava", lambda _: {"input_ids": torch.tensor([[5, 6, 7]]), "strength": torch.ones(3)}),
    ),
    ids=("an array", "a tokenizer", "anything beside text"),
)
def test_what_is_no_cache_is_no_fault(family, change):
    with torch.no_grad(), prune(tiny.model(family), METHOD):
        tiny.model(family)(**change(tiny.sample(family)))


def test_a_step_on_a_cache_that_the_model_keeps_itself_is_no_new_prompt():
    model = tiny.variant("llava")
    own: Any = type(model)
    name, kept = tiny.CACHE, list[Any]()

    class KeepsItsCache(own):
        def forward(self, **kwargs: Any) -> Any:
            output = super().forward(**kwargs, use_cache=True, **{name: kept[0] if kept else None})
            kept[:] = [output[name]]
            return output

    model.__class__ = KeepsItsCache
    message = "decoder layers got a cache of 45 tokens, and the call of the model brought none"
    with torch.no_grad(), prune(model, "divprune", retention=0.5):
        model(**tiny.sample("llava"))
        with tiny.refused(UnsupportedInput, message):
            model(input_ids=torch.tensor([[5]]))


@pytest.mark.parametrize("argument", ("attention_mask", "input_ids"))
def test_a_model_that_renames_what_describes_the_prompt_is_refused(argument):
    """Padding in a mask that we do not see would be taken for text."""
    model = tiny.variant("llava")
    own: Any = type(model)

    class Renamed(own):
        def forward(self) -> None:
            raise AssertionError("ran")

    taken = signature(own.forward)
    parts = [part.replace(name=part.name.replace(argument, "renamed")) for part in taken.parameters.values()]
    Renamed.forward.__signature__ = taken.replace(parameters=parts)  # pyright: ignore[reportFunctionMemberAccess]
    Renamed.__module__ = own.__module__
    model.__class__ = Renamed
    with tiny.refused(UnsupportedModel, f"Renamed takes no '{argument}' that prune"), prune(model, METHOD):
        pass


def test_a_class_of_the_users_own_may_hand_on_its_arguments():
    model = tiny.variant("llava")
    own: Any = type(model)

    class HandsOn(own):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return super().forward(*args, **kwargs)

    model.__class__ = HandsOn
    with torch.no_grad(), prune(model, METHOD) as trace:
        model(**tiny.sample("llava"))
    assert trace.stages


@pytest.mark.parametrize("method", ("reorder_cache", "batch_select_indices", "batch_repeat_interleave"))
def test_a_cache_that_moves_its_samples_by_another_name_is_refused(monkeypatch, method):
    """Beams would go on with the tokens of other beams."""
    model = tiny.model("llava")
    monkeypatch.setattr(Cache, f"new_{method}", getattr(Cache, method), raising=False)
    monkeypatch.delattr(Cache, method)
    with tiny.refused(UnsupportedModel, f"DynamicCache has no '{method}'"), prune(model, METHOD), torch.no_grad():
        model(**tiny.sample("llava"), use_cache=True)
