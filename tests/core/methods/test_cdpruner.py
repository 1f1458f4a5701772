"""CDPruner: by hand, against the determinants themselves, and inside the models by either relevance."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import CLIPConfig, CLIPModel, CLIPTokenizer

from tests.core import tiny
from tests.core.methods import towers
from tests.core.methods.test_overhead import declared_is_counted
from tests.core.rules.test_selection import dpp_map_in_a_loop
from trio_core import OptionError, prune
from trio_core.methods.cdpruner import CDPruner, cdpruner, scale_relevance

FEATURES = torch.tensor([(1, 0), (0.9, 0.1), (0, 1), (0.1, 0.9), (0.7, 0.7), (-1, 0)])
COSINES = torch.tensor([0.10, 0.12, 0.20, 0.25, 0.15, 0.30])
QUESTION = "what is it and where"
"""As letters and word ends 18 tokens with their frame: three segments of the toy's 8."""


# --- worked by hand --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("budget", "kept"), [(1, [0]), (2, [0, 4])])
def test_the_cards_example(budget, kept):
    """Token 1, second in relevance, is rejected as a duplicate of 0."""
    assert cdpruner(FEATURES, scale_relevance(-COSINES), budget).tolist() == kept


def test_what_a_low_rank_leaves_open_goes_by_relevance():
    """Two directions: after a token of each nothing is left to gain."""
    features = torch.tensor([(1.0, 0), (2, 0), (0, 1), (0, 3), (0, 1)])
    relevances = torch.tensor([0.2, 0.9, 0.5, 0.8, 1.0])
    assert [cdpruner(features, relevances, k).tolist() for k in (2, 3, 4)] == [[1, 4], [1, 3, 4], [1, 2, 3, 4]]
    assert cdpruner(torch.ones(4, 2), torch.ones(4), 3).tolist() == [0, 1, 2]  # ties to the lower index
    assert cdpruner(torch.zeros(4, 2), torch.tensor([0.1, 0.3, 0.3, 0.2]), 2).tolist() == [1, 2]


# --- the plain form --------------------------------------------------------------------------------------------------


def plain(features: Tensor, relevances: Tensor, budget: int) -> list[int]:
    """Always the token that makes the determinant of the kept ones' kernel largest, computed anew for each."""
    unit = torch.nn.functional.normalize(features.double(), dim=-1)
    return dpp_map_in_a_loop(relevances.double()[:, None] * (unit @ unit.T) * relevances.double(), budget)


# --- inside the models -----------------------------------------------------------------------------------------------


def by_likeness(crops: list[towers.Crop], budget: int, likeness: Callable[[Tensor], Tensor], part: str) -> list[int]:
    """The rule crop by crop; the likeness of all crops is brought to one range.

    likeness: [N, D] → [N]. part: which features of a crop it reads.
    """
    values = [likeness(getattr(crop, part)[crop.patches]).double() for crop in crops]
    low, high, kept = min(map(min, values)), max(map(max, values)), []
    for crop, seen, share in zip(crops, values, towers.crop_budgets(crops, budget), strict=True):
        relevances = (seen - low + 1e-6) / (high - low)
        kept += [crop.numbers[crop.patches[i]] for i in plain(crop.projected[crop.patches], relevances, share)]
    return kept


@pytest.mark.parametrize("retention", tiny.fast_first([0.17, 0.6], 0.17))
@towers.families
def test_inside_the_models_by_the_embeddings(family, retention):
    def choose(crops: list[towers.Crop], budget: int, one: dict[str, Tensor]) -> list[int]:
        behind = towers.entering(tiny.model(family), one)[int(tiny.visual_rows(one)[-1]) + 1 :].double().mean(dim=0)
        return by_likeness(crops, budget, lambda part: torch.cosine_similarity(part, behind, dim=-1), "projected")

    towers.check_selection(family, CDPruner(retention=retention), choose)


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> Path:
    """A checkpoint with the toys' width, whose words are spelt, and whose text tower takes 8 tokens."""
    directory = tmp_path_factory.mktemp("clip")
    letters = [chr(i) for i in range(ord("a"), ord("z") + 1)]
    tokens = [*letters, *[f"{letter}</w>" for letter in letters], "<|startoftext|>", "<|endoftext|>"]
    CLIPTokenizer(vocab={token: i for i, token in enumerate(tokens)}, merges=[]).save_pretrained(directory)
    sizes = {"intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {**sizes, "vocab_size": 54, "hidden_size": 16, "max_position_embeddings": 8}
    text |= {"bos_token_id": 52, "eos_token_id": 53, "pad_token_id": 53}
    vision = {**sizes, "hidden_size": 32, "image_size": 16, "patch_size": 4}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=12))
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(0.5 * torch.randn(weights.shape, generator=generator))
    model.save_pretrained(directory)
    return directory


def in_clip(model: CLIPModel, hidden: Tensor) -> Tensor:
    """[N] minus the cosine of patches with the question, a segment at a time."""
    spell = "abcdefghijklmnopqrstuvwxyz"
    ids = [52]
    for word in QUESTION.split():
        ids += [spell.index(letter) for letter in word]
        ids[-1] += 26  # the last letter of a word ends it
    ids.append(53)
    assert len(ids) == 18
    patches = model.visual_projection(model.vision_model.post_layernorm(hidden.float()))
    cosines = []
    for start in (0, 8, 16):
        segment = ids[start : start + 8]
        missing = [0] * (8 - len(segment))
        padded, there = torch.tensor([segment + missing]), torch.tensor([[1] * len(segment) + missing])
        text = model.get_text_features(padded, there).pooler_output[0]
        cosines.append(-torch.cosine_similarity(patches, text, dim=-1))
    return torch.stack(cosines).mean(dim=0)


@towers.with_cls
def test_inside_the_models_by_clip(family, clip):
    model = CLIPModel.from_pretrained(clip)

    @torch.no_grad()
    def choose(crops: list[towers.Crop], budget: int, _one: object) -> list[int]:
        return by_likeness(crops, budget, lambda part: in_clip(model, part), "hidden")

    method = CDPruner(retention=0.3, relevance="clip", clip=str(clip), question=QUESTION)
    towers.check_selection(family, method, choose)


def test_another_question_selects_other_tokens_and_costs_what_it_declares(clip):
    kept, one = [], tiny.sample("llava")
    for question in (QUESTION, "who"):  # three segments and one
        method = CDPruner(retention=0.3, relevance="clip", clip=str(clip), question=question)
        kept.append(tiny.prefill(tiny.model("llava"), [one], method).stages[0].kept[0].tolist())
        declared_is_counted("llava", one, method)
    assert kept[0] != kept[1]


# --- what it refuses -------------------------------------------------------------------------------------------------


def test_a_directory_without_a_checkpoint_and_one_of_another_width(tmp_path, clip):
    model, one = tiny.model("llava"), tiny.sample("llava")
    wider = CLIPModel.from_pretrained(clip).config
    wider.vision_config.hidden_size = 48
    CLIPModel(wider).save_pretrained(tmp_path / "wider")
    CLIPTokenizer.from_pretrained(clip).save_pretrained(tmp_path / "wider")
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("empty", "holds no CLIPModel checkpoint"),
        ("wider", "width 48, the model's tower makes 32"),
    ):
        method = CDPruner(retention=0.5, relevance="clip", clip=str(tmp_path / name), question="who")
        with tiny.refused(OptionError, message), torch.no_grad(), prune(model, method):
            model(**one)
