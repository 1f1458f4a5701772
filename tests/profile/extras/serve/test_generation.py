import json

import pytest
import torch

from tests.core.tiny import fast_first
from tests.profile.extras.serve.serving import answer
from tests.profile.studying import make
from trio_core import methods, prune
from trio_profile.extras.serve.application import Served
from trio_profile.extras.serve.generation import Generation, PromptTokens, Stopped, Turns
from trio_profile.inputs.models import load
from trio_profile.inputs.pocket.grammar import exam
from trio_profile.inputs.workload import ask, placed

ASKED = {"max_new_tokens": 4, "do_sample": False}


def inputs_of(served: Served, number: int = 0) -> dict:
    question = exam(number + 1)[number]
    return ask(served.processor, [question.picture()], question.text)


class Streamer:
    """Notes what comes, and what is known when it ends."""

    def __init__(self, generation: Generation):
        self.generation, self.tokens, self.ended_with = generation, [], []

    def put(self, value: torch.Tensor) -> None:
        self.tokens.append(value.tolist())

    def end(self) -> None:
        self.ended_with.append(self.generation.prompt)


@pytest.mark.parametrize(
    "name", fast_first(["trio", "visionzip", "visionzip+trio", "fastv", "vtw", "random", "tome"], "visionzip+trio")
)
def test_the_tokens_are_those_of_the_trace(pruned, name):
    method = methods.find(name)(retention=0.5)
    inputs = inputs_of(pruned)
    generation = Generation(pruned.model, method, Turns())
    made = generation.generate(**inputs, **ASKED)
    with prune(pruned.model, method) as trace:
        expected = pruned.model.generate(**placed(inputs, pruned.model), **ASKED)
    assert torch.equal(made, expected)
    by_layer = trace.schedules[0].tokens_by_layer
    length, mean = inputs["input_ids"].shape[1], sum(by_layer) / len(by_layer)
    assert generation.prompt == PromptTokens(length - 576, 576, round(mean), pytest.approx(mean / 576))
    assert generation.prompt.total == length - 576 + round(mean)


@pytest.mark.parametrize("kind", ["dense", "pruned"])
def test_the_beams_of_a_search_are_one_prompt(kind, request):
    served = request.getfixturevalue(kind)
    inputs, found = inputs_of(served), []
    for beams in (1, 2):
        generation = Generation(served.model, served.method, Turns())
        generation.generate(**inputs, **ASKED, num_beams=beams)
        found.append(generation.prompt)
    assert found[0] == found[1]


def test_a_stream_ends_when_the_tokens_are_known(pruned):
    generation = Generation(pruned.model, pruned.method, Turns())
    streamer = Streamer(generation)
    made = generation.generate(**inputs_of(pruned), **ASKED, streamer=streamer)
    assert streamer.ended_with == [generation.prompt] != [None]
    prompt, *new = streamer.tokens
    assert prompt[0] + [number for numbers in new for number in numbers] == made[0].tolist()


def test_the_message_of_a_fault_in_a_stream_can_stand_in_a_json_text(pruned, monkeypatch):
    def fail(**_: object):
        raise ValueError('say "no"\nand more')

    monkeypatch.setattr(pruned.model, "generate", fail)
    generation = Generation(pruned.model, None, Turns())
    with pytest.raises(RuntimeError) as seen:
        generation.generate(**inputs_of(pruned), streamer=Streamer(generation))
    assert json.loads(f'"{seen.value}"') == 'say "no"'


def test_a_stopped_server_generates_no_further_token(pruned):
    turns = Turns()
    generation = Generation(pruned.model, pruned.method, turns)
    streamer = Streamer(generation)
    streamer.put = lambda _value: turns.stop()
    with pytest.raises(RuntimeError, match="the server stops") as seen:
        generation.generate(**inputs_of(pruned), max_new_tokens=200, min_new_tokens=200, streamer=streamer)
    assert isinstance(seen.value.__cause__, Stopped)
    with pytest.raises(Stopped):
        Generation(pruned.model, pruned.method, turns).generate(**inputs_of(pruned))
    assert answer(pruned, exam(1)[0])[0] == exam(1)[0].answer  # the model is free again


def test_a_model_in_bfloat16_takes_the_pixels_as_the_server_gives_them():
    loaded = load(make(model="pocket", device="cpu", dtype="bfloat16"))
    generation = Generation(loaded.model, None, Turns())
    served = Served("pocket", loaded.model, loaded.processor, None)
    inputs = inputs_of(served)
    assert inputs["pixel_values"].dtype == torch.float32
    expected = loaded.model.generate(**placed(inputs, loaded.model), **ASKED)
    assert torch.equal(generation.generate(**inputs, **ASKED), expected)
