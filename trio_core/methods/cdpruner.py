"""CDPruner: token pruning that maximizes conditional diversity (arXiv 2506.10967)."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.crops import crop_by_crop, crops_to_keep_of
from trio_core.methods.method import Method, Reference, Stage
from trio_core.methods.view import Selection, Signal, View
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.schedule import shares
from trio_core.rules.selection import cosine, dpp_map
from trio_core.tensors import FeaturesND, KeptK, ScoresN


@torch.no_grad()
def relevance_of(likeness: ScoresN) -> ScoresN:
    """(likeness − min + 10⁻⁶) / (max − min), over all crops of a picture; 1 where all are alike.

    The least relevant token is not quite 0, so that the kernel's diagonal stays positive. likeness: [N], of each token
    to the question; the released code gives minus the cosine in CLIP's space, where the alike is the background.
    """
    wide = likeness.to(torch.promote_types(likeness.dtype, torch.float32))
    low, high = wide.aminmax()
    return torch.where(high == low, 1, (wide - low + 1e-6) / (high - low))


@torch.no_grad()
def cdpruner(features: FeaturesND, relevances: ScoresN, budget: int) -> KeptK:
    """CDPruner's choice within one crop: the greedy MAP of the kernel relevance_i · cosine_ij · relevance_j.

    NeurIPS 2025, Theia-4869/CDPruner at 9541616. Deliberate difference: where the kernel's rank lies below the budget,
    the most relevant of the others complete it; the released code may keep fewer, or divide by zero.

    features: [N, D] projected tokens, not normalised; relevances: [N], not negative; budget: K in 1 … N. Returns K
    indices, ascending; ties go to the more relevant, then to the lower index. Raises OptionError as `dpp_map` does.
    """
    # In this order the lowest indices, which complete a choice, are the most relevant tokens.
    order = relevances.argsort(descending=True, stable=True)
    ranked = relevances[order].to(torch.promote_types(features.dtype, torch.float32))
    kernel = ranked[:, None] * cosine(features[order]) * ranked
    return order[dpp_map(kernel, budget)].sort().values


@dataclass(frozen=True, kw_only=True)
class CDPruner(Method):
    """Keep the tokens that are relevant to the question and unlike each other, each crop its share of the budget.

    relevance: what the question is compared in. `embeddings`, which is ours and runs everywhere: a token's cosine with
    the mean embedding of the text behind the picture, as both enter the decoder. `clip`, the released rule: minus its
    cosine with the question in CLIP's joint space, which takes CLIP's text tower.
    clip: for `clip`, the directory of the tower's own CLIPModel checkpoint with its tokenizer.
    question: for `clip`, the bare question, one for all samples; in segments of as many tokens as the text tower takes.
    """

    relevance: Literal["embeddings", "clip"] = "embeddings"
    clip: str = ""
    question: str = ""

    name: ClassVar[str] = "cdpruner"
    stage: ClassVar[Stage] = Stage.ENCODER
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.ENCODER, Signal.EMBEDDINGS})
    reference: ClassVar[Reference] = Reference(
        title="Beyond Attention or Similarity: Maximizing Conditional Diversity for Token Pruning in MLLMs",
        arxiv="2506.10967",
        repository="Theia-4869/CDPruner",
        commit="9541616c40fcd5625de1cdb8ea6c33c129eb7864",
        note="By default the question is read from the decoder's own embeddings, with the template's words; the "
        "released code asks CLIP's text tower: relevance='clip'. What a kernel of low rank leaves open goes by "
        "relevance. The budget is divided over the crops, where the released code keeps as many of each; LLaVA-NeXT's "
        "newlines go, and padding is cut off its tiles first, which the released code leaves in.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relevance not in ("embeddings", "clip"):
            raise OptionError(f"relevance {self.relevance!r}: choose embeddings or clip")
        if self.relevance == "embeddings" and (self.clip or self.question):
            raise OptionError("clip and question belong to relevance 'clip': ask for it, or leave them out")
        if self.relevance == "clip" and not (self.question and self.clip and Path(self.clip).is_dir()):
            raise OptionError(
                f"relevance 'clip' asks CLIP's text tower: give clip a directory with a CLIPModel checkpoint (it is "
                f"{self.clip!r}) and question the question (it is {self.question!r}), or take relevance 'embeddings'"
            )

    def select(self, view: View) -> Selection:
        """Relevance over all crops of a picture together, diversity crop by crop; the scores are the relevances."""
        kept, scores = [], []
        for sample, picture in enumerate(view.pictures):
            features = view.features(sample)
            if picture.budget == len(picture.rows):  # a small picture beside larger ones
                kept.append(torch.arange(picture.budget, device=features.device))
                scores.append(torch.ones(picture.budget, device=features.device))
                continue
            crops = crops_to_keep_of(view.encoder, sample, picture.budget)
            patches = torch.cat([there for _, there in crops])
            found = relevance_of(self._likeness(view, sample, patches))
            relevances = found.new_zeros(len(features)).index_copy(0, patches, found)

            def choose(
                _crop: int,
                there: Tensor,
                _patch: Tensor,
                budget: int,
                features: Tensor = features,
                relevances: Tensor = relevances,
            ) -> KeptK:
                return cdpruner(features[there], relevances[there], budget)

            kept.append(crop_by_crop(view.encoder, sample, picture.budget, choose))
            scores.append(relevances)
        return Selection(tuple(kept), tuple(scores))

    def _likeness(self, view: View, sample: int, patches: Tensor) -> ScoresN:
        """[n] how much the patches of one sample are like the question, however that is asked."""
        if self.relevance == "embeddings":
            embedded = view.embeddings[sample]
            wide = torch.promote_types(embedded.visual.dtype, torch.float32)
            visual, text = embedded.visual[patches].to(wide), embedded.text.to(wide).mean(dim=0, keepdim=True)
            return (F.normalize(visual, dim=-1) @ F.normalize(text, dim=-1).T)[:, 0]
        hidden = view.encoder.by_token(sample, view.encoder.hidden)[patches]
        return -_clip_cosine(self.clip, self.question, hidden)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of each crop's similarities and of the Cholesky rows of its picks, and of the relevance.

        With `clip` that is the text tower on the question, at every choice anew, and the patches' projection into the
        joint space; reading the checkpoint from disk multiplies nothing, and happens once.
        All visual tokens are counted as patches: nobody says which are newlines.
        """
        crops = shape.crops(sizes.visual)
        diversity = sum(
            patches * (patches * shape.hidden + share * (share - 1) // 2)
            for patches, share in zip(crops, shares(sizes.budget, crops), strict=True)
            if share
        )
        if self.relevance == "embeddings":
            return diversity + sizes.visual * shape.hidden
        return diversity + _clip_macs(self.clip, self.question, sizes.visual)


# --- CLIP's joint space ----------------------------------------------------------------------------------------------


@cache
def _checkpoint(directory: str) -> tuple[Any, Any]:
    """CLIPModel, in float32, and its tokenizer; read from disk once. Attention is eager, whose products are counted."""
    from transformers import AutoTokenizer, CLIPModel

    try:
        with torch.inference_mode(False):  # it outlives the context in which it is first asked for
            clip = CLIPModel.from_pretrained(
                directory, local_files_only=True, dtype=torch.float32, attn_implementation="eager"
            )
        return clip.eval(), AutoTokenizer.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = str(error).partition("\n")[0]
        raise OptionError(f"clip {directory!r} holds no CLIPModel checkpoint with its tokenizer: {why}") from error


def _segments(directory: str, question: str) -> Tensor:
    """[G, L] ids of the question, zeros behind it in the last segment; the tower looks back only, and sees none."""
    clip, tokenizer = _checkpoint(directory)
    length = clip.config.text_config.max_position_embeddings
    ids = torch.tensor(tokenizer(question, verbose=False).input_ids)
    return F.pad(ids, (0, -len(ids) % length)).view(-1, length)


@torch.no_grad()
def _clip_cosine(directory: str, question: str, hidden: FeaturesND) -> ScoresN:
    """[N] cosine of the tower's patches [N, D] with the question in CLIP's joint space, the mean over its segments.

    Raises OptionError for a checkpoint of another width than the tower's.
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
    return (F.normalize(patches, dim=-1) @ F.normalize(text, dim=-1).T).mean(dim=1)


def _clip_macs(directory: str, question: str, patches: int) -> int:
    """MACs of `_clip_cosine` for so many patches."""
    config = _checkpoint(directory)[0].config
    text, joint = config.text_config, config.projection_dim
    segments, length = _segments(directory, question).shape
    width = text.hidden_size
    layer = length * (4 * width * width + 2 * width * text.intermediate_size) + 2 * length * length * width
    tower = segments * (text.num_hidden_layers * layer + width * joint)
    return tower + patches * joint * (config.vision_config.hidden_size + segments)
