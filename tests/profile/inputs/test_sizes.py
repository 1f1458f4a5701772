import json

import pytest

from tests.profile.studying import make
from trio_profile.errors import StudyError
from trio_profile.inputs.sizes import sizes_of
from trio_profile.inputs.towers import vision_terms
from trio_profile.inputs.workload import build


@pytest.mark.parametrize("model", ["llava-1.5-7b", "llava-next-7b-photo", "qwen2.5-vl-7b"])
def test_decoder_and_tower_are_those_that_flops_counts(model: str):
    workload = build(make("flops", model=model, device="meta", methods=(), retentions=()), weights=False)
    shape, tower = sizes_of(model, None, workload.shape.text_tokens, 1)
    compared = set(type(shape).model_fields) - {
        "patches",
        "vision_hidden",
        "vision_heads",
        "merged",
        "text_after",
        "has_cls",
    }
    assert shape.model_dump(include=compared - {"itemsize"}) == workload.shape.model_dump(
        include=compared - {"itemsize"}
    )
    macs = {
        "gemm": lambda rows, out, into: rows * out * into,
        "encoder": lambda n, h, size, batch: 2 * batch * n * n * h * size,
    }
    counted = sum(times * macs[name](*sizes) for times, name, sizes in tower if name in macs)
    terms = vision_terms(workload.model, workload.inputs)
    assert counted == pytest.approx(sum(sum(part.values()) for part in terms.values()), rel=1e-3)


def test_a_checkpoint_needs_its_visual_tokens_and_its_sizes(tmp_path):
    config = {"model_type": "llava", "text_config": {"hidden_size": 8}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    for tokens, says in ((None, "give --visual-tokens"), (9, "config.json does not say 'num_attention_heads'")):
        with pytest.raises(StudyError, match=says):
            sizes_of(str(tmp_path), tokens, 60, 1)
