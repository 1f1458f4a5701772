"""CDPruner: token pruning that maximizes conditional diversity (arXiv 2506.10967), and as OpenVINO GenAI runs it."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.errors import OptionError, first_line
from trio_core.methods.crops import Crop, TowerMethod, all_tokens, crop_by_crop, crops_of
from trio_core.methods.method import Reference, within
from trio_core.methods.view import Sample, Selection, Signal, View
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.selection import cosine, dpp_map, unit_rows
from trio_core.tensors import FeaturesND, KeptK, ScoresN, wide_type, widened


def scale_relevance(scores: ScoresN) -> ScoresN:
    """[N]: (score − min + 10⁻⁶) / (max − min), or 1 everywhere if all scores are equal.

    The smallest relevance is not quite 0, so that the kernel's diagonal stays positive.

    scores: [N], of each token for the question, over all crops of a picture.
    """
    wide = widened(scores)
    low, high = wide.aminmax()
    return torch.where(high == low, 1, (wide - low + 1e-6) / (high - low))


def cdpruner(features: FeaturesND, relevances: ScoresN, budget: int) -> KeptK:
    """The tokens of one crop that are relevant and unlike each other: [K] indices, ascending.

    It is the greedy MAP of a determinantal point process with the kernel relevance_i · cosine_ij · relevance_j. Ties go
    to the more relevant token, then to the lower index.

    features: [N, D] projected tokens, not normalised.
    relevances: [N], not negative.
    budget: K, 1 … N.

    Raises OptionError as `dpp_map` does.
    Source: NeurIPS 2025, Theia-4869/CDPruner at 9541616. Deliberate difference: if the kernel's rank is below K, the
    most relevant of the other tokens complete the selection. The released code may keep fewer, or divide by zero.
    """
    # `dpp_map` completes a selection by the lowest indices. In this order they are the most relevant tokens.
    order = relevances.argsort(descending=True, stable=True)
    ranked = relevances[order].to(wide_type(features))
    kernel = ranked[:, None] * cosine(features[order]) * ranked
    return order[dpp_map(kernel, budget)].sort().values


@dataclass(frozen=True, kw_only=True)
class CDPruner(TowerMethod):
    """Keep the tokens that are relevant to the question and unlike each other.

    relevance: how a token is compared with the question. `embeddings` is ours and runs everywhere: the token's cosine
        with the mean embedding of the text after the picture, as both enter the decoder. `clip` is the released rule:
        minus the cosine in CLIP's joint space. It needs CLIP's text tower.
    clip: for `clip`, a directory with the tower's own CLIPModel checkpoint and its tokenizer.
    question: for `clip`, the bare question, one for all samples. It is cut into segments that fit the text tower.

    Each crop keeps an equal share.
    """

    relevance: Literal["embeddings", "clip"] = "embeddings"
    clip: str = ""
    question: str = ""

    name: ClassVar[str] = "cdpruner"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.ENCODER, Signal.EMBEDDINGS})
    reference: ClassVar[Reference] = Reference(
        title="Beyond Attention or Similarity: Maximizing Conditional Diversity for Token Pruning in MLLMs",
        arxiv="2506.10967",
        repository="Theia-4869/CDPruner",
        commit="9541616c40fcd5625de1cdb8ea6c33c129eb7864",
        note="By default the rule reads the question from the decoder's own embeddings, with the words of the "
        "template. The released code asks CLIP's text tower, and relevance='clip' does so. If the rank of the kernel "
        "is too low, the most relevant tokens complete the selection.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relevance == "embeddings" and (self.clip or self.question):
            raise OptionError("clip and question belong to relevance 'clip': ask for it, or leave them out")
        if self.relevance == "clip" and not (self.question and self.clip and Path(self.clip).is_dir()):
            raise OptionError(
                f"relevance 'clip' asks CLIP's text tower: give clip a directory with a CLIPModel checkpoint (it is "
                f"{self.clip!r}) and question the question (it is {self.question!r}), or take relevance 'embeddings'"
            )

    def select(self, view: View) -> Selection:
        """Relevance is scaled over all crops of a picture, diversity acts crop by crop. The scores are relevances."""
        kept, scores = zip(*(self._sample(sample) for sample in view.samples), strict=True)
        return Selection(kept, scores)

    def _sample(self, sample: Sample) -> tuple[KeptK, ScoresN]:
        """[K] the tokens kept of one sample, and [N] the relevance of each token; 0 at newlines."""
        features = sample.features
        if sample.keeps_all:
            return all_tokens(sample), torch.ones(len(features), device=features.device)
        crops = crops_of(sample)
        tokens = torch.cat([crop.tokens for crop in crops])
        of_patches = scale_relevance(self._question_scores(sample, tokens))
        relevances = of_patches.new_zeros(len(features)).index_copy(0, tokens, of_patches)
        kept = crop_by_crop(crops, lambda crop: cdpruner(features[crop.tokens], relevances[crop.tokens], crop.budget))
        return kept, relevances

    def _question_scores(self, sample: Sample, tokens: Tensor) -> ScoresN:
        """[n] the scores of some tokens of a sample for the question. Higher is more relevant."""
        view = sample.view
        if self.relevance == "embeddings":
            embedded = view.embeddings[sample.index]
            text = widened(embedded.text).mean(dim=0, keepdim=True)
            return (unit_rows(embedded.visual[tokens]) @ unit_rows(text).T)[:, 0]
        hidden = view.encoder.by_token(sample.index, view.encoder.hidden)[tokens]
        return -_clip_cosine(self.clip, self.question, hidden)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the similarities within each crop, of the Cholesky rows of its picks, and of the relevance.

        With `clip`, relevance costs the text tower on the question, at every selection anew, and the projection of the
        patches into the joint space.
        All visual tokens are counted as patches: nobody says which are newlines.
        """
        diversity = sum(
            patches * (patches * shape.hidden + share * (share - 1) // 2)
            for patches, share in shape.crop_shares(sizes.visual, sizes.budget)
        )
        if self.relevance == "embeddings":
            return diversity + sizes.visual * shape.hidden
        return diversity + _clip_macs(self.clip, self.question, sizes.visual)


# --- CLIP's joint space ----------------------------------------------------------------------------------------------


@cache
def _checkpoint(directory: str) -> tuple[Any, Any]:
    """The CLIPModel, in float32, and its tokenizer. They are read from disk once.

    Attention is eager, because torch's counter sees its products. Raises OptionError if they cannot be read.
    """
    from transformers import AutoTokenizer, CLIPModel

    try:
        with torch.inference_mode(False):  # the cached model outlives the context of its first use
            clip = CLIPModel.from_pretrained(
                directory, local_files_only=True, dtype=torch.float32, attn_implementation="eager"
            )
        return clip.eval(), AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # a foreign checkpoint may fail anywhere in the loading code
        why = first_line(error)
        raise OptionError(f"clip {directory!r} holds no CLIPModel checkpoint with its tokenizer: {why}") from error


def _segments(directory: str, question: str) -> Tensor:
    """[G, L]: the token ids of the question in segments of the text tower's length L.

    Zeros fill the last segment. The tower is causal, so that the question's tokens do not see them.
    """
    clip, tokenizer = _checkpoint(directory)
    length = clip.config.text_config.max_position_embeddings
    ids = torch.tensor(tokenizer(question, verbose=False).input_ids)
    return F.pad(ids, (0, -len(ids) % length)).view(-1, length)


def _clip_cosine(directory: str, question: str, hidden: FeaturesND) -> ScoresN:
    """[N]: the cosine of each patch with the question in CLIP's joint space, averaged over the question's segments.

    hidden: [N, D], the tower's patches.

    Raises OptionError if the checkpoint's width is not the tower's.
    """
    clip, _ = _checkpoint(directory)
    if (width := clip.config.vision_config.hidden_size) != hidden.shape[1]:
        raise OptionError(
            f"clip {directory!r} reads patches of width {width}, the model's tower makes {hidden.shape[1]}: name the "
            "tower's own checkpoint, or take relevance 'embeddings'"
        )
    clip = clip.to(hidden.device)
    ids = _segments(directory, question).to(hidden.device)
    text = clip.text_projection(clip.text_model(input_ids=ids).pooler_output)
    patches = clip.visual_projection(clip.vision_model.post_layernorm(hidden.float()))
    return (unit_rows(patches) @ unit_rows(text).T).mean(dim=1)


def _clip_macs(directory: str, question: str, patches: int) -> int:
    """MACs of `_clip_cosine`. patches: how many there are."""
    config = _checkpoint(directory)[0].config
    text, joint = config.text_config, config.projection_dim
    segments, length = _segments(directory, question).shape
    width = text.hidden_size
    layer = length * (4 * width * width + 2 * width * text.intermediate_size) + 2 * length * length * width
    tower = segments * (text.num_hidden_layers * layer + width * joint)
    return tower + patches * joint * (config.vision_config.hidden_size + segments)


EPSILON = 1e-6
"""The engine's `numerical_threshold`."""


def split_cdpruner(features: FeaturesND, scores: ScoresN, budget: int, weight: float, split: bool) -> KeptK:
    """The tokens of one picture that are relevant and unlike each other: [K] indices, ascending.

    With `split`, ⌊K/2⌋ come from the first ⌊N/2⌋ tokens and the others from the rest, each half on its own. Each is the
    greedy MAP of a determinantal point process with the kernel (1 − w + w · r_i · r_j) · cosine_ij. The relevances r
    are the scores brought to 0 … 1 within the half.

    features: [N, D], as they enter the decoder.
    scores: [N], cosines with the question.
    budget: K, 1 … N.
    weight: w, 0 … 1.

    Raises OptionError as `dpp_map` does.
    Source: openvinotoolkit/openvino.genai at da1db86, src/cpp/src/visual_language/cdpruner. Deliberate difference: if
    the rank of the kernel is too low, the lowest indices complete the selection. The engine goes on by rounding errors.
    """
    kept, start = [], 0
    for count, share in _halves(len(scores), budget, split):
        part = slice(start, start + count)
        if share:
            kept.append(start + dpp_map(_kernel(features[part], scores[part], weight), share))
        start += count
    return torch.cat(kept)


def _halves(count: int, budget: int, split: bool) -> list[tuple[int, int]]:
    """The tokens and the budget of each half. Both halves together if they are not split."""
    if not split or count == 1:
        return [(count, budget)]
    return [(count // 2, budget // 2), (count - count // 2, budget - budget // 2)]


def _kernel(features: FeaturesND, scores: ScoresN, weight: float) -> torch.Tensor:
    """[N, N], the kernel of some tokens."""
    wide = widened(scores)
    low, high = wide.aminmax()
    relevances = (wide - low) / (high - low + EPSILON)
    return (1 - weight + weight * relevances[:, None] * relevances) * cosine(features)


@dataclass(frozen=True, kw_only=True)
class SplitCDPruner(TowerMethod):
    """Keep the tokens that are relevant to the prompt and unlike each other, in each half of a picture.

    relevance_weight: how much relevance counts against diversity, w.
    split: whether the halves are kept apart. The engine's default; CDPRUNER_SPLIT_THRESHOLD=0 turns it off there.

    Each picture keeps an equal share.
    """

    relevance_weight: float = within("[0, 1]", 0.5)
    split: bool = True

    name: ClassVar[str] = "split-cdpruner"
    reference: ClassVar[Reference] = Reference(
        title="Beyond Attention or Similarity: Maximizing Conditional Diversity for Token Pruning in MLLMs",
        arxiv="2506.10967",
        repository="openvinotoolkit/openvino.genai",
        commit="da1db864d2bc1a265e9a036f5b57ef13f0e86c2c",
        note="The rule of the engine, which differs from the paper's. Half of the budget comes from each half of the "
        "tokens; the paper selects from all. Relevance is scaled in each half; the paper scales it over the picture. "
        "The kernel mixes the paper's with the bare cosine, half and half. Relevance is the cosine with the mean "
        "embedding of the prompt outside of the picture; the paper asks CLIP's text tower. The two tokens beside a "
        "picture are left out, which are the marks around it. In the engine the text after a picture counts on after "
        "the largest kept position id.",
    )

    def select(self, view: View) -> Selection:
        """Select picture by picture. The scores are the cosines with the prompt."""
        kept, scores = zip(*(self._sample(sample) for sample in view.samples), strict=True)
        return Selection(kept, scores)

    def _sample(self, sample: Sample) -> tuple[KeptK, ScoresN]:
        """[K] the tokens kept of one sample, and [N] the cosine of each with the prompt."""
        features = sample.features
        if sample.keeps_all:
            return all_tokens(sample), torch.ones(len(features), device=features.device)
        scores = (unit_rows(features) @ unit_rows(_prompt(sample)).T)[:, 0]

        def rule(crop: Crop) -> KeptK:
            parts = features[crop.tokens], scores[crop.tokens]
            return split_cdpruner(*parts, crop.budget, self.relevance_weight, self.split)

        return crop_by_crop(crops_of(sample), rule), scores

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the relevance, of the similarities within each half, and of the Cholesky rows of its picks."""
        halves = [
            half
            for patches, share in shape.crop_shares(sizes.visual, sizes.budget)
            for half in _halves(patches, share, self.split)
            if half[1]
        ]
        diversity = sum(count * (count * shape.hidden + share * (share - 1) // 2) for count, share in halves)
        return diversity + sizes.visual * shape.hidden


def _prompt(sample: Sample) -> FeaturesND:
    """[1, D], the mean embedding of a sample's prompt outside of the picture and the two tokens beside it."""
    view, last = sample.view, sample.view.valid.shape[1] - 1
    text = view.valid[sample.index].clone()
    for step in (-1, 0, 1):
        text.index_fill_(0, (sample.rows + step).clamp(0, last), False)
    words = widened(view.hidden[sample.index]) * text[:, None]
    return words.sum(dim=0, keepdim=True) / text.sum().clamp_min(1)
