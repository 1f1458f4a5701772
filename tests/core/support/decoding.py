"""generate(): its modes, its streamers, and what stands around it."""

from functools import cache, partial
from threading import Thread
from typing import Any
from unittest.mock import Mock

import torch
from PIL import Image
from torch import Tensor
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, TextIteratorStreamer, pipeline

from tests.core import tiny
from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import prune
from trio_profile.inputs.models import load
from trio_profile.records.schema import Study

GROUP = Group("generate()")

GROUP.works("Greedy decoding", bench.generate)
GROUP.works("Sampling", partial(bench.generate, do_sample=True, temperature=1.5, top_k=20))


@GROUP.works("Sampling with `num_return_sequences=3`")
def several_answers(model, one, trace):
    output = bench.generate(model, one, do_sample=True, num_return_sequences=3)
    for row in range(3):
        bench.text_is_right(trace, one, output, row)


def beam_is_right(output: Any, logits: Tensor, written: Tensor) -> None:
    """The best beam has the probability that the logits [T, V] of its tokens [T] give it."""
    total = logits.log_softmax(dim=-1).gather(1, written[:, None]).sum()
    assert torch.allclose(output.sequences_scores[0], total, rtol=1e-5, atol=1e-4), "the beam has another probability"


BEAMS: dict[str, Any] = {"num_beams": 3, "length_penalty": 0.0, "output_scores": True}


@GROUP.works("Beam search, three beams")
def beams(model, one, trace):
    output = bench.generate(model, one, **BEAMS)
    written = output.sequences[0, one["input_ids"].shape[1] :]
    beam_is_right(output, bench.shortened(trace, one, written[:-1].tolist())[-len(written) :], written)


@GROUP.works("`use_cache=False`: each step is a prefill")
def no_cache() -> None:
    model, one = bench.model(), bench.sample()
    with prune(model, "grid", retention=0.5, layers=bench.LAYERS) as trace:
        output = bench.generate(model, one, use_cache=False)
    bench.text_is_right(trace, one, output)


@GROUP.works(
    "Beam search with a method that looks into the tower (VisionZip): generate() runs the tower once",
    method="visionzip",
    size="small",
)
def beams_behind_the_tower(model, one, trace):
    prompt = one["input_ids"].shape[1]
    # A placeholder among the new tokens would count as a part of the picture below.
    output = bench.generate(model, one, suppress_tokens=[tiny.IMAGE], **BEAMS)
    kept = [stage.tolist() for stage in trace.stages[0].kept]
    # VisionZip looks at the picture alone, so that a longer prompt keeps the same tokens.
    longer = {"input_ids": output.sequences, "attention_mask": torch.ones_like(output.sequences)}
    logits = bench.forward(model, one, **longer).logits
    assert kept == [trace.stages[0].kept[0].tolist()] * 3, "a beam keeps other tokens"
    beam_is_right(output, logits[0, prompt - 1 : -1], output.sequences[0, prompt:])


GROUP.refused(
    "`use_cache=False` with VisionZip: generate() runs the tower in the first step only",
    partial(bench.generate, use_cache=False),
    method="visionzip",
)
GROUP.refused("`model.generate_batch(...)`", lambda model: model.generate_batch([[11, 23, 35]], max_new_tokens=2))
GROUP.refused('`generate(cache_implementation="paged")`', partial(bench.generate, cache_implementation="paged"))
GROUP.refused("`prefill_chunk_size` smaller than the prompt", partial(bench.generate, prefill_chunk_size=10))


@GROUP.works("`prefill_chunk_size`: the first chunk holds the pictures and five words behind them")
def chunk_behind_the_picture(model, one):
    return bench.generate(model, one, prefill_chunk_size=3 + 33 + 5)


@GROUP.works(
    "`guidance_scale=1.5`: each step also runs a prompt without the picture",
    says="The trace tells of the prompt with the picture, and notes the other one",
)
def guidance(model, one, trace):
    output = bench.generate(model, one, guidance_scale=1.5, negative_prompt_ids=torch.tensor([[5, 6]]))
    assert any("without visual tokens also ran" in note for note in trace.notes)
    return output


def assistant() -> LlamaForCausalLM:
    """A language model with the toy's vocabulary."""
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=tiny.VOCABULARY, pad_token_id=0, bos_token_id=None, eos_token_id=None, **sizes)
    return LlamaForCausalLM(config).eval()


GROUP.refused(
    "Assisted decoding, `assistant_model=`",
    lambda model, one: bench.generate(model, one, assistant_model=assistant()),
)


@GROUP.refused("Prompt lookup, set in `model.generation_config`; the caller passes a `generation_config` without it")
def lookup_of_the_model(model, one):
    model.generation_config.prompt_lookup_num_tokens = 3
    model.generate(**one, generation_config=GenerationConfig(max_new_tokens=3))


GROUP.refused("Prompt lookup, `prompt_lookup_num_tokens=3`", partial(bench.generate, prompt_lookup_num_tokens=3))


@GROUP.works("A streamer in the same thread")
def streamer(model, one):
    listener = Mock()
    output = bench.generate(model, one, streamer=listener)
    streamed = [token for call in listener.put.mock_calls for token in call.args[0].flatten()]
    assert streamed == output.sequences[0].tolist()
    return output


# --- the trained model that ships with trio_profile, and its processor -----------------------------------------------

PICTURE = Image.new("RGB", (192, 192), (200, 40, 40))
QUESTION = "<image> which digit is in the red square ?"
TEMPLATE = (
    "{% for message in messages %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image> {% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
)
POCKET: dict[str, Any] = {"method": "trio", "retention": 0.3}
PLAIN = "the text is that of a plain call"


@cache
def pocket() -> Any:
    return load(Study(model="pocket"))


def question() -> bench.Inputs:
    return dict(pocket().processor(images=PICTURE, text=QUESTION, return_tensors="pt"))


def pocket_tokens(inputs: bench.Inputs) -> list[int]:
    """The pocket model's answer by a plain call of generate."""
    with prune(pocket().model, **POCKET) as trace:
        output = bench.generate(pocket().model, inputs)
    assert trace.stages and trace.realised_retention < 0.31
    return output.sequences[0, inputs["input_ids"].shape[1] :].tolist()


@cache
def pocket_text() -> list[str]:
    return pocket().processor.tokenizer.decode(pocket_tokens(question()), skip_special_tokens=True).split()


@GROUP.works("`TextIteratorStreamer`: `model.generate` in a thread, the main thread reads", says=PLAIN)
def streamer_in_a_thread() -> None:
    model = pocket().model
    stream = TextIteratorStreamer(pocket().processor.tokenizer, skip_prompt=True, skip_special_tokens=True, timeout=60)
    with prune(model, **POCKET) as trace:
        worker = Thread(target=bench.generate, args=(model, question()), kwargs={"streamer": stream})
        worker.start()
        text = "".join(stream)
        worker.join()
    assert trace.stages and text.split() == pocket_text()


@GROUP.works('`pipeline("image-text-to-text")`', says=PLAIN)
def through_pipeline() -> None:
    loaded = pocket()
    pipe: Any = pipeline("image-text-to-text", model=loaded.model, processor=loaded.processor)
    exactly = {"max_new_tokens": bench.NEW_TOKENS, "min_new_tokens": bench.NEW_TOKENS, "do_sample": False}
    with prune(loaded.model, **POCKET) as trace:
        (answer,) = pipe(images=PICTURE, text=QUESTION, generate_kwargs=exactly, return_full_text=False)
    assert trace.stages and answer["generated_text"].split() == pocket_text()


@GROUP.works("`processor.apply_chat_template`, then `generate`")
def chat_template() -> None:
    content = [{"type": "image", "image": PICTURE}, {"type": "text", "text": QUESTION.removeprefix("<image> ")}]
    inputs = pocket().processor.apply_chat_template(
        [{"role": "user", "content": content}],
        chat_template=TEMPLATE,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
    )
    assert pocket_tokens(dict(inputs)) == pocket_tokens(question())


# --- several turns and prompts ---------------------------------------------------------------------------------------


@GROUP.works("A second turn of text: `generate` goes on from the cache, inside the context")
def second_turn(model, one, trace):
    first = bench.generate(model, one)
    ids = torch.cat([first.sequences, torch.tensor([[11, 23, 35]])], dim=1)
    again = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    output = bench.generate(model, again, **{tiny.CACHE: first[tiny.CACHE]})
    written = output.sequences[0, one["input_ids"].shape[1] :].tolist()
    bench.steps_are_right(trace, one, [seen[0] for seen in output.logits], written[:-1])


@GROUP.works("A batch of two prompts, padded on the left")
def batch(model, trace):
    samples = [bench.sample("small", seed=1), bench.sample()]
    inputs = tiny.batch(samples)
    output = bench.generate(model, inputs)
    for row, one in enumerate(samples):
        bench.text_is_right(trace, one, output, row, prompt=inputs["input_ids"].shape[1])
