"""`pocket-video`: it answers about clips, and takes nothing else."""

import copy
from dataclasses import replace

import pytest
import torch

from trio_profile.errors import StudyError
from trio_profile.inputs.models import load
from trio_profile.inputs.pocket.clips import FRAMES, clip, render
from trio_profile.inputs.pocket.video import processor
from trio_profile.inputs.workload import ask, build
from trio_profile.profilers import fidelity
from trio_profile.records.schema import Study


@pytest.mark.slow
def test_it_answers_what_pocket_was_never_shown():
    """A question about each kind of thing."""
    workload = build(Study(model="pocket-video", fidelity_inputs=10))
    assert workload.shape.visual_tokens == FRAMES * 144 + 1
    workload = replace(workload, questions=workload.questions[:3])
    assert all(fidelity.reference(workload, 0, 0).correct)


def test_its_weights_are_those_of_pocket():
    ours, pocket = (load(Study(model=name)).model.state_dict() for name in ("pocket-video", "pocket"))
    newline = ours.pop("model.image_newline")
    assert not newline.any() and ours.keys() == pocket.keys()
    assert all(torch.equal(value, pocket[name]) for name, value in ours.items())


def test_its_processor_can_be_copied():
    own = processor()
    assert copy.deepcopy(own).video_token == own.video_token == "<image>"


def test_what_is_no_clip_is_refused_in_one_line():
    own = processor()
    frames = render(clip(0))
    for given, why in ((frames[0], "no pictures, only clips; give --video"), (frames[:7], "not 7; give --frames 8")):
        with pytest.raises(StudyError, match=f"ClipProcessor refuses this input: pocket-video takes .*{why}"):
            ask(own, [given], "at the red square which digit ?")
    with pytest.raises(StudyError, match="prompts: 1, clips: 2; give each prompt one clip"):
        ask(own, [frames, frames], "at the red square which digit ?")
