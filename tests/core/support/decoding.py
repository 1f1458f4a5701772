"""generate(): its modes, its streamers, and what stands around it."""

from functools import cache
from threading import Thread
from typing import Any

import torch
from PIL import Image
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, TextIteratorStreamer, pipeline

from tests.core import tiny
from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import prune
from trio_profile.inputs.models import load
from trio_profile.records.schema import Study

GROUP = Group("generate()")


def generated(**options: Any) -> str:
    model, one = bench.model(), bench.sample()
    with prune(model, bench.METHOD) as trace:
        output = bench.generate(model, one, **options)
    return bench.text_is_right(trace, one, output)


GROUP.works("Greedy decoding", lambda: generated())


GROUP.works("Sampling", lambda: generated(do_sample=True, temperature=1.5, top_k=20))


@GROUP.works("Sampling with `num_return_sequences=3`")
def several_answers(model, one, trace):
    tiny.needs(5, 19, "copies of a sample with several pictures mix them up")
    output = bench.generate(model, one, do_sample=True, num_return_sequences=3)
    said = [bench.text_is_right(trace, one, output, row) for row in range(3)]
    return f"{said[0][:-1]}, in each of 3 answers."


@GROUP.works("Beam search, three beams")
def beams(model, one, trace):
    tiny.needs(5, 19, "copies of a sample with several pictures mix them up")
    output = bench.generate(model, one, num_beams=3, length_penalty=0.0, output_scores=True)
    written = output.sequences[0, one["input_ids"].shape[1] :].tolist()
    first, *later = bench.shortened(trace, one, written[:-1])
    chances = torch.stack([first[-1], *later]).log_softmax(dim=-1)
    total = chances[torch.arange(len(written)), written].sum()
    assert torch.allclose(output.sequences_scores[0], total, rtol=1e-5, atol=1e-4), "the beam has another probability"
    return f"{bench.dropped(trace)}; the best beam has the probability that the physically shortened sequence gives it."


@GROUP.works("`use_cache=False`: each step is a prefill")
def no_cache() -> str:
    model, one = bench.model(), bench.sample()
    with prune(model, "grid", retention=0.5, layers=bench.LAYERS) as trace:
        output = bench.generate(model, one, use_cache=False)
    written = output.sequences[0, one["input_ids"].shape[1] :].tolist()
    longer = {**one, "input_ids": output.sequences[:, :-1]}
    rows = bench.shortened(trace, longer)[0][-len(written) :]
    assert all(bench.near(seen[0], row) for seen, row in zip(output.logits, rows, strict=True))
    return f"{bench.dropped(trace)}; the logits of {len(written)} new tokens are those of the shortened sequence."


@GROUP.works(
    "Beam search with a method that looks into the tower (VisionZip): generate() runs the tower once",
    method="visionzip",
    size="small",
)
def beams_behind_the_tower(model, one, trace):
    prompt = one["input_ids"].shape[1]
    # A placeholder among the new tokens would count as a part of the picture below.
    options = {"num_beams": 3, "length_penalty": 0.0, "suppress_tokens": [tiny.IMAGE]}
    output = bench.generate(model, one, output_scores=True, **options)
    counts = bench.dropped(trace, (0,))
    beams = [stage.tolist() for stage in trace.stages[0].kept]
    # VisionZip looks at the picture alone, so that a longer prompt keeps the same tokens.
    longer = {"input_ids": output.sequences, "attention_mask": torch.ones_like(output.sequences)}
    logits = bench.forward(model, {**one, **longer}).logits
    alone = trace.stages[0].kept[0].tolist()
    chances = logits[0, prompt - 1 : -1].log_softmax(dim=-1)
    total = chances.gather(1, output.sequences[0, prompt:, None]).sum()
    assert beams == [alone] * 3, "a beam keeps other tokens"
    assert torch.allclose(output.sequences_scores[0], total, rtol=1e-5, atol=1e-4), "the beam has another probability"
    return f"{counts}; each beam keeps them, and the best one has the probability of one pruned forward over it."


@GROUP.refused("`use_cache=False` with VisionZip: generate() runs the tower in the first step only", method="visionzip")
def no_cache_behind_the_tower(model, one):
    bench.generate(model, one, use_cache=False)


GROUP.refused("`model.generate_batch(...)`", lambda model: model.generate_batch([[11, 23, 35]], max_new_tokens=2))


@GROUP.refused('`generate(cache_implementation="paged")`')
def paged(model, one):
    bench.generate(model, one, cache_implementation="paged")


@GROUP.refused("`prefill_chunk_size` smaller than the prompt")
def chunks(model, one):
    bench.generate(model, bench.sample(), prefill_chunk_size=10)


@GROUP.works("`prefill_chunk_size`: the first chunk holds the pictures and five words behind them")
def chunk_behind_the_picture() -> str:
    tiny.needs(5, 23, "chunks go without their pictures")
    return generated(prefill_chunk_size=3 + 33 + 5)


@GROUP.works("`guidance_scale=1.5`: each step also runs a prompt without the picture")
def guidance(model, one, trace):
    output = bench.generate(model, one, guidance_scale=1.5, negative_prompt_ids=torch.tensor([[5, 6]]))
    said = bench.text_is_right(trace, one, output)
    assert any("without visual tokens also ran" in note for note in trace.notes)
    return f"{said} The trace tells of the prompt with the picture, and notes the other one."


def assistant() -> LlamaForCausalLM:
    """A language model with the toy's vocabulary."""
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=tiny.VOCABULARY, pad_token_id=0, bos_token_id=None, eos_token_id=None, **sizes)
    return LlamaForCausalLM(config).eval()


def as_greedy(**options: Any) -> str:
    """A mode of generate that must write what greedy decoding writes; the prompt's last words stand in it twice."""
    model, one = bench.model(), bench.sample()
    one["input_ids"][0, -6:] = torch.tensor([11, 23, 35, 47, 11, 23])
    with prune(model, bench.METHOD) as trace:
        expected = bench.generate(model, one, max_new_tokens=20, min_new_tokens=20).sequences
        output = bench.generate(model, one, max_new_tokens=20, min_new_tokens=20, output_logits=False, **options)
    assert torch.equal(output.sequences, expected), "it wrote other tokens than greedy decoding, and no error"
    return f"{bench.dropped(trace)}; the 20 new tokens are those of greedy decoding."


GROUP.refused("Assisted decoding, `assistant_model=`", lambda: as_greedy(assistant_model=assistant()))


@GROUP.refused("Prompt lookup, set in `model.generation_config`; the caller passes a `generation_config` without it")
def lookup_of_the_model() -> str:
    model, one = bench.model(), bench.sample()
    model.generation_config.prompt_lookup_num_tokens = 3
    with prune(model, bench.METHOD):
        model.generate(**one, generation_config=GenerationConfig(max_new_tokens=3))


GROUP.refused("Prompt lookup, `prompt_lookup_num_tokens=3`", lambda: as_greedy(prompt_lookup_num_tokens=3))


class Words:
    """A streamer that counts."""

    def __init__(self) -> None:
        self.words: list[int] = []

    def put(self, value: torch.Tensor) -> None:
        self.words.extend(value.flatten().tolist())

    def end(self) -> None:
        pass


@GROUP.works("A streamer in the same thread")
def streamer() -> str:
    words: Any = Words()
    said = generated(streamer=words)
    assert len(words.words) == bench.sample()["input_ids"].shape[1] + bench.NEW_TOKENS
    return said


@cache
def pocket() -> Any:
    """The trained model that ships with trio_profile, and its processor."""
    return load(Study(model="pocket"))


PICTURE = Image.new("RGB", (192, 192), (200, 40, 40))
QUESTION = "<image> which digit is in the red square ?"
TEMPLATE = (
    "{% for message in messages %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image> {% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
)
POCKET: dict[str, Any] = {"method": "trio", "retention": 0.3}


def pocket_tokens() -> list[int]:
    """The pocket model's answer by a plain call of generate."""
    loaded = pocket()
    inputs = dict(loaded.processor(images=PICTURE, text=QUESTION, return_tensors="pt"))
    with prune(loaded.model, **POCKET) as trace:
        output = bench.generate(loaded.model, inputs)
    assert trace.stages and trace.realised_retention < 0.31
    return output.sequences[0, inputs["input_ids"].shape[1] :].tolist()


@GROUP.works("`TextIteratorStreamer`: `model.generate` in a thread, the main thread reads")
def streamer_in_a_thread() -> str:
    loaded = pocket()
    tokenizer = loaded.processor.tokenizer
    inputs = dict(loaded.processor(images=PICTURE, text=QUESTION, return_tensors="pt"))
    expected = tokenizer.decode(pocket_tokens(), skip_special_tokens=True)
    errors: list[BaseException] = []
    stream = TextIteratorStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True, timeout=60)

    def work() -> None:
        try:
            bench.generate(loaded.model, inputs, streamer=stream)
        except BaseException as error:
            errors.append(error)
            stream.end()

    with prune(loaded.model, **POCKET) as trace:
        worker = Thread(target=work, name="worker")
        worker.start()
        text = "".join(stream)
        worker.join()
    if errors:
        raise errors[0]
    assert trace.stages and text.split() == expected.split()
    return f"{len(trace.stages)} stages ran; the text is that of a plain call."


@GROUP.works('`pipeline("image-text-to-text")`')
def through_pipeline() -> str:
    loaded = pocket()
    expected = loaded.processor.tokenizer.decode(pocket_tokens(), skip_special_tokens=True)
    pipe: Any = pipeline("image-text-to-text", model=loaded.model, processor=loaded.processor)
    exactly = {"max_new_tokens": bench.NEW_TOKENS, "min_new_tokens": bench.NEW_TOKENS, "do_sample": False}
    with prune(loaded.model, **POCKET) as trace:
        (said,) = pipe(images=PICTURE, text=QUESTION, generate_kwargs=exactly, return_full_text=False)
    assert trace.stages and said["generated_text"].split() == expected.split(), said
    return f"{len(trace.stages)} stages ran; the text is that of a plain call."


@GROUP.works("`processor.apply_chat_template`, then `generate`")
def chat_template() -> str:
    loaded = pocket()
    content = [{"type": "image", "image": PICTURE}, {"type": "text", "text": "which digit is in the red square ?"}]
    inputs = loaded.processor.apply_chat_template(
        [{"role": "user", "content": content}],
        chat_template=TEMPLATE,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
    )
    with prune(loaded.model, **POCKET) as trace:
        output = bench.generate(loaded.model, dict(inputs))
    assert trace.stages
    assert output.sequences[0, inputs["input_ids"].shape[1] :].tolist() == pocket_tokens()
    return f"{len(trace.stages)} stages ran; the new tokens are those of a plain call."


@GROUP.works("A second turn of text: `generate` goes on from the cache, inside the context")
def second_turn(model, one, trace):
    prompt, more = one["input_ids"].shape[1], torch.tensor([[11, 23, 35]])
    first = bench.generate(model, one)
    ids = torch.cat([first.sequences, more], dim=1)
    again = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    output = bench.generate(model, again, past_key_values=first.past_key_values)
    written = output.sequences[0, prompt:].tolist()
    later = bench.shortened(trace, one, written[:-1])[1:]
    assert all(
        bench.near(seen[0], wanted) for seen, wanted in zip(output.logits, later[-bench.NEW_TOKENS :], strict=True)
    )
    return f"{bench.dropped(trace)}; the second answer's logits are those of the physically shortened sequence."


@GROUP.works("A batch of two prompts, padded on the left")
def batch(model, one, trace):
    samples = [bench.sample("small", seed=1), bench.sample()]
    inputs = tiny.batch(samples)
    output = bench.generate(model, inputs)
    width = inputs["input_ids"].shape[1]
    said = [bench.text_is_right(trace, one, output, row, prompt=width) for row, one in enumerate(samples)]
    return f"{said[1][:-1]}, in each sample."
