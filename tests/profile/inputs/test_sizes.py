import json

import pytest

from tests.profile.studying import make
from trio_profile.errors import StudyError
from trio_profile.inputs.sizes import sizes_of
from trio_profile.inputs.towers import vision_terms
from trio_profile.inputs.workload import build

SAME = {"num_layers", "hidden", "intermediate", "query_width", "kv_width", "heads", "vocabulary", "visual_tokens"}
MACS = {"gemm": lambda rows, out, into: rows * out * into, "bytes": lambda _: 0}
MACS |= {"encoder": lambda tokens, heads, head_size, batch: 2 * batch * tokens**2 * heads * head_size}


@pytest.mark.parametrize("model", ["llava-1.5-7b", "llava-next-7b-photo", "qwen2.5-vl-7b"])
def test_decoder_and_tower_are_those_that_flops_counts(model: str):
    workload = build(make(model=model, device="meta"), weights=False)
    shape, tower = sizes_of(model, None, 60, 1)
    assert shape.model_dump(include=SAME) == workload.shape.model_dump(include=SAME)
    terms = vision_terms(workload.model, workload.inputs).values()
    macs = sum(times * MACS[name](*sizes) for times, name, sizes in tower)
    assert macs == pytest.approx(sum(sum(part.values()) for part in terms), rel=1e-3)


def test_a_checkpoint_needs_its_visual_tokens_and_its_sizes(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llava", "text_config": {"hidden_size": 8}}))
    for tokens, says in ((None, "give --visual-tokens"), (9, "config.json does not say 'num_hidden_layers'")):
        with pytest.raises(StudyError, match=says):
            sizes_of(str(tmp_path), tokens, 60, 1)
