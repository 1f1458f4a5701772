"""How the pocket model was trained, in two phases that a CPU can afford.

1. *See.* The vision tower and the projector learn to say of each patch what it belongs to, in the decoder's own word
   embeddings.
2. *Answer.* The tower stands still and its features are kept. The decoder learns from a part of each picture's things,
   more and more of them, and then from more and more of the ground: to look things up is learnt soon among three and
   late among thirty.

Many questions share one picture: its tokens are a prefix that they all read, and none reads another (`Packing`). In the
second phase layers often do not let them see it at all (`blindfold`). Left to itself, each word alone looks up what
shares it, in the very first layer, where it knows nothing yet of the word beside it nor of what the hop before found,
and training stays there. Once prompts have their ending, half of them keep the words of the last hop from seeing it:
the answer then has to be looked for where it is given, at the prompt's end, as larger models do.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, LlavaForConditionalGeneration

from trio_profile.errors import StudyError
from trio_profile.inputs.pocket.checkpoint import VISUAL_TOKENS, VOCABULARY, processor, untrained
from trio_profile.inputs.pocket.exam import TRAINED_FROM
from trio_profile.inputs.pocket.grammar import ENDING, MOST_HOPS, Question, ask
from trio_profile.inputs.pocket.scenes import MOST, PROPERTIES, VALUES, Scene, Thing, render, scene

Phase = Literal["see", "answer"]
PHASES: tuple[Phase, ...] = ("see", "answer")
STATE = "training.pt"
"""What training leaves in its directory to go on from."""

_BEFORE = [VOCABULARY[word] for word in ("<s>", "user", ":")]
_AFTER = [VOCABULARY[word] for word in ("assistant", ":")]
_SAVED_EVERY_S = 120.0
_ENDING = 0.55
"""How much of the second phase is over when prompts receive their ending, and ground is added."""
_GROUND = 300
_LONGEST = 64
"""More than any question's words."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what comes out, but the machine. steps: of each phase.

    pictures: rendered once, for both phases. batch: pictures in a step of each phase. questions: about each picture.
    rate: of learning, at its highest. deep: weight of the answers read off every layer, which fades out within the
    second phase: what a layer's readout says is to be the model's own doing in the end. patches: share of a thing's
    patches that the decoder sees in that phase. blind: in how many layers at the most a hop's words do not.
    """

    seed: int = 0
    steps: tuple[int, int] = (1200, 3200)
    pictures: int = 4000
    batch: tuple[int, int] = (8, 8)
    questions: int = 16
    rate: float = 2e-3
    deep: float = 0.3
    patches: float = 0.75
    blind: int = 3


@dataclass(frozen=True)
class Progress:
    """What training says of itself after a step. right: running accuracies, of what the tower sees or by hops."""

    phase: Phase
    step: int
    steps: int
    loss: float
    right: dict[str, float]
    things: int = 0


Watcher = Callable[[Progress], None]


@dataclass(frozen=True)
class Album:
    """Pictures with what they show. pixels: [N, 3, side, side] bytes."""

    scenes: tuple[Scene, ...]
    pixels: Tensor

    def prepared(self, chosen: Sequence[int]) -> Tensor:
        """Some of them as the model's processor prepares them."""
        images = processor().image_processor
        mean, std = (torch.tensor(value)[:, None, None] for value in (images.image_mean, images.image_std))
        return (self.pixels[list(chosen)] / 255 - mean) / std


def album(count: int) -> Album:
    """The first `count` training pictures."""
    scenes = tuple(scene(TRAINED_FROM + number) for number in range(count))
    pixels = np.stack([np.asarray(render(each)) for each in scenes])
    return Album(scenes, torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous())


# --- many questions behind one picture ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Packing:
    """A row of the batch: a prefix of the picture, and then so many questions of one length that read only it."""

    prefix: int
    questions: int
    length: int


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _attention_mask: None,
    *,
    scaling: float,
    packing: Packing,
    **_others: Any,
) -> tuple[Tensor, None]:
    """Attention of packed questions: [B, heads, prefix + questions · length, d] → [B, the same, heads, d].

    The prefix is causal; a question reads the prefix and, causally, itself. Nothing is computed for the rest.
    """
    p, shape = packing.prefix, (packing.questions, packing.length)
    query = query * scaling
    # Written out: the CPU's fused kernel takes several times as long backward.
    picture = _softmax(_causal(query[:, :, :p] @ key[:, :, :p].mT)) @ value[:, :, :p]
    asked, keys, values = (x[:, :, p:].unflatten(2, shape) for x in (query, key, value))
    over_picture = asked.flatten(2, 3) @ key[:, :, :p].mT
    if (gate := getattr(module, "gate", None)) is not None:
        over_picture = over_picture + gate[: packing.length].repeat(packing.questions)[:, None].to(over_picture.dtype)
    own = _causal(asked @ keys.mT).flatten(2, 3)
    of_picture, of_own = _softmax(torch.cat([over_picture, own], dim=-1)).split([p, packing.length], dim=-1)
    questions = of_picture @ value[:, :, :p] + (of_own.unflatten(2, shape) @ values).flatten(2, 3)
    return torch.cat([picture, questions], dim=2).transpose(1, 2), None


def blindfold(model: Any, layers: int, hops: int = 1, *, late: bool = False) -> None:
    """Keep questions of so many hops from seeing the picture in so many layers of each hop's share; 0 shows it.

    The layers are shared out between the hops: the words of a question's second hop do not see the picture in the first
    hop's third of the layers either, and meet in theirs what the first has found. late: the words of the last hop never
    see it, so that the prompt's end has to look.
    """
    stack = model.model.language_model.layers
    at = torch.arange(_LONGEST)
    hop = (at[:, None] > torch.tensor(found_at(hops - 1), dtype=torch.long)).sum(dim=1)
    never = (hop == hops - 1) & (at <= found_at(hops)[-1]) & late
    for number, layer in enumerate(stack):
        attention = layer.self_attn
        if not hasattr(attention, "gate"):
            # A buffer, so that a compiled layer takes it as an input and not as a constant.
            attention.register_buffer("gate", torch.zeros(_LONGEST, device=model.device), persistent=False)
        blind = never | ((number < hop * _share(len(stack)) + layers) & (layers > 0))
        attention.gate.copy_(torch.where(blind, -torch.inf, 0.0))


def _share(layers: int) -> int:
    """How many layers each hop has for itself."""
    return layers // MOST_HOPS


def plain_attention(
    _module: nn.Module, query: Tensor, key: Tensor, value: Tensor, _attention_mask: None, *, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """The tower's attention, written out for the same reason: [B, heads, n, d] → [B, n, heads, d]."""
    return (_softmax((query * scaling) @ key.mT) @ value).transpose(1, 2), None


def _causal(scores: Tensor) -> Tensor:
    n = scores.shape[-1]
    return scores.masked_fill(torch.ones(n, n, dtype=torch.bool, device=scores.device).triu(1), -torch.inf)


def _softmax(scores: Tensor) -> Tensor:
    return scores.softmax(dim=-1, dtype=torch.float32).to(scores.dtype)


for _name, _attention in (("packed", packed_attention), ("plain", plain_attention)):
    AttentionInterface.register(_name, _attention)
    AttentionMaskInterface.register(_name, lambda *_, **__: None)


def question_ids(question: Question, *, ending: bool = True) -> list[int]:
    """A prompt behind its picture, and the answer as its last token; without its ending, up to what is looked for."""
    words = question.text.split()
    if not ending:
        return [VOCABULARY[word] for word in words[: -len(ENDING.split())]]
    return [*(VOCABULARY[word] for word in words), *_AFTER, VOCABULARY[question.answer]]


def found_at(hops: int) -> list[int]:
    """Where in `question_ids` of so many hops stands a property that is looked for: "at the red square by *digit*"."""
    return [5 + 5 * hop for hop in range(hops)]


def answer_loss(
    model: Any,
    features: Tensor,
    places: Tensor,
    texts: Tensor,
    found: Tensor,
    *,
    ending: bool,
    late: bool = False,
    deep: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Mean cross entropy of what is to be found at each hop, and of the answer and its end where prompts have one.

    features: [B, n, D] of the tower; places: [B, n] where on the picture they lie; texts: [B, Q, T] of `question_ids`;
    found: [B, Q, hops] ids. late: the words of the last hop see nothing and are not asked. deep: weight of the same
    loss at the readouts of the layers after a hop's share of them. Also returns [hops] the share that is right, of the
    answer itself in place of the last where prompts have an ending.
    """
    b, q, t = texts.shape
    hops = found.shape[2]
    device = texts.device
    embed, before = model.get_input_embeddings(), torch.tensor(_BEFORE, device=device)
    visual = model.model.multi_modal_projector(features)
    embeds = torch.cat([embed(before).expand(b, -1, -1), visual.float(), embed(texts.flatten(1))], dim=1)
    positions = torch.cat(
        [
            torch.arange(len(_BEFORE), device=device).expand(b, -1),
            places + len(_BEFORE),
            (torch.arange(t, device=device) + len(_BEFORE) + VISUAL_TOKENS).repeat(b, q),
        ],
        dim=1,
    )
    prefix = len(_BEFORE) + places.shape[1]
    out = model.model.language_model(
        inputs_embeds=embeds,
        position_ids=positions,
        use_cache=False,
        output_hidden_states=deep > 0,
        packing=Packing(prefix, q, t),
    )
    at = found_at(hops - late) + [t - 2] * ending
    rows = (torch.arange(q, device=device)[:, None] * t + prefix + torch.tensor(at, device=device)).flatten()
    truth = torch.cat([found[..., : hops - late], *[found[..., -1:]] * ending], dim=2).flatten()
    said = model.lm_head(out.last_hidden_state[:, rows]).float().flatten(0, 1)
    loss = F.cross_entropy(said, truth)
    if ending:
        ends = torch.arange(q, device=device) * t + prefix + t - 1
        over = model.lm_head(out.last_hidden_state[:, ends]).float().flatten(0, 1)
        loss = loss + 0.1 * F.cross_entropy(over, torch.full((len(over),), VOCABULARY["</s>"], device=device))
    if deep:
        hop = torch.arange(len(at), device=device).repeat(b * q)
        inner, norm = out.hidden_states[1:-1], model.model.language_model.norm
        for depth, hidden in enumerate(inner, 1):
            due = (hop + 1) * _share(len(inner) + 1) <= depth
            readout = model.lm_head(norm(hidden[:, rows].flatten(0, 1)[due])).float()
            if len(readout):
                loss = loss + deep / len(inner) * F.cross_entropy(readout, truth[due])
    right = (said.argmax(dim=-1) == truth).float().reshape(-1, len(at)).mean(dim=0)
    return loss, torch.cat([right[: hops - 1], right[-1:]])


# --- the phases --------------------------------------------------------------------------------------------------


class Labels(nn.Module):
    """What the tower is asked of each patch, and of the whole picture: heads that training throws away."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.patch_heads = nn.ModuleList(nn.Linear(width, len(VALUES[of]) + 1) for of in PROPERTIES)
        self.picture_heads = nn.ModuleList(nn.Linear(width, len(VALUES[of])) for of in PROPERTIES)


def patch_labels(scenes: Sequence[Scene]) -> Tensor:
    """[B, V, 3] which value of each property a patch belongs to, counted from 1; 0 where there is no thing."""
    labels = torch.zeros(len(scenes), VISUAL_TOKENS, len(PROPERTIES), dtype=torch.long)
    for b, each in enumerate(scenes):
        for thing in each.things:
            labels[b, list(thing.patches())] = torch.tensor([VALUES[of].index(thing[of]) + 1 for of in PROPERTIES])
    return labels


def see_loss(
    model: LlavaForConditionalGeneration, labels: Labels, pixels: Tensor, truth: Tensor
) -> tuple[Tensor, dict[str, float]]:
    """What the tower is taught; and the share of the things' patches that it names. truth: [B, V, 3] `patch_labels`.

    Each patch names its thing's properties, the picture's CLS token says in which shares they occur, and a patch's
    projection is the sum of their words' embeddings, which stand still meanwhile.
    """
    hidden = model.model.vision_tower(pixels).last_hidden_state
    projected = model.model.multi_modal_projector(hidden[:, 1:]).float()
    words: Tensor = model.get_input_embeddings().weight.detach()  # pyright: ignore[reportAssignmentType, reportCallIssue]
    things = truth[..., 0] > 0
    weight = torch.where(things, 1.0, 0.2).flatten()
    target, loss, right = torch.zeros_like(projected[things]), torch.zeros(()), {}
    for k, (of, head, whole) in enumerate(zip(PROPERTIES, labels.patch_heads, labels.picture_heads, strict=True)):
        named = head(hidden[:, 1:]).float()
        each = F.cross_entropy(named.flatten(0, 1), truth[..., k].flatten(), reduction="none")
        shares = F.one_hot(truth[..., k], len(VALUES[of]) + 1)[..., 1:].float().sum(dim=1)
        shares = shares / shares.sum(dim=1, keepdim=True)
        loss = loss + (each * weight).sum() / weight.sum() + F.cross_entropy(whole(hidden[:, 0]).float(), shares)
        right[of] = (named.argmax(dim=-1) == truth[..., k])[things].float().mean().item()
        ids = torch.tensor([VOCABULARY[value] for value in VALUES[of]], device=truth.device)
        target = target + words[ids[truth[..., k][things] - 1]]
    return loss + (projected[things] - target).square().sum(dim=-1).mean(), right


def visible(
    shown: Scene, things: int, patches: float, ground: int, rng: np.random.Generator
) -> tuple[list[Thing], list[int]]:
    """Some of a picture's things, and its tokens: a share of their patches, and some of the ground."""
    chosen = [shown.things[i] for i in rng.permutation(len(shown.things))[:things]]
    mine = rng.permutation([patch for thing in chosen for patch in thing.patches()])
    rest = np.setdiff1d(np.arange(VISUAL_TOKENS), [patch for thing in shown.things for patch in thing.patches()])
    kept = [*mine[: round(patches * len(mine))].tolist(), *rng.permutation(rest)[:ground].tolist()]
    return chosen, sorted(kept)


FOUND = 0.85
"""Share of right answers from which on more is asked: above what guessing among the few that share a word gives."""


@dataclass
class Curriculum:
    """How much the decoder has to look through: more things as soon as it finds them. right: running, by hops."""

    things: int = 3
    right: tuple[float, ...] = (0.0,) * MOST_HOPS

    @property
    def ground(self) -> int:
        """Tokens of the ground beside them."""
        return 3 * (self.things - 3) + 2

    @property
    def hops(self) -> int:
        """Of the questions that are asked: one more as soon as those before are found often enough."""
        asked = 1
        while asked < MOST_HOPS and (self.right[asked - 1] > FOUND or self.right[asked]):
            asked += 1
        return asked

    def heard(self, hops: int, right: float) -> None:
        """Note how a batch of so many hops was answered."""
        before = self.right[hops - 1]
        self.right = (*self.right[: hops - 1], before + 0.05 * (right - before), *self.right[hops:])

    def grow(self, done: float) -> None:
        """One thing more, if every hop finds those that are there, or time wants it: each is learnt soon among few.

        Four things for each hop are always there, for there to be a way.
        """
        found = min(self.right[: self.hops]) > FOUND
        wanted = max(4 * self.hops, MOST * (done - 0.3) / 0.4)
        if (found or self.things < wanted) and self.things < MOST:
            self.things += 1


class Training:
    """A run of the recipe, which can be saved after any step and gone on with.

    minutes: the time for both phases in place of the recipe's steps, shared out in their proportion.
    """

    def __init__(
        self, recipe: Recipe, device: str = "cpu", minutes: float | None = None, *, compiled: bool = False
    ) -> None:
        self.recipe, self.device, self.minutes, self.compiled = recipe, torch.device(device), minutes, compiled
        self.model: Any = untrained(recipe.seed).to(self.device)  # pyright: ignore[reportArgumentType]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            self.labels = Labels(self.model.config.vision_config.hidden_size).to(self.device)
        self.rng = np.random.default_rng(recipe.seed)
        self.curriculum = Curriculum()
        self.phase, self.step, self.seconds = 0, 0, 0.0
        self.optimizers = self._optimizers()

    def run(self, directory: Path, watch: Watcher) -> LlavaForConditionalGeneration:
        """All phases that are not yet done; the trained model, with the library's own attention again.

        Goes on from what `directory` holds. Raises StudyError where that was made by another recipe.
        """
        if (directory / STATE).exists():
            self._load(directory / STATE)
        pictures = album(self.recipe.pictures)
        self._attention("plain", "packed")
        blindfold(self.model, 0)
        if self.compiled:
            for layer in self.model.model.language_model.layers:
                layer.forward = torch.compile(layer.forward, dynamic=True)
        features = None
        while self.phase < len(PHASES):
            if self.phase > 0 and features is None:
                features = self.features(pictures)
            self._run_phase(pictures, features, directory, watch)
            self.phase, self.step, self.seconds = self.phase + 1, 0, 0.0
            self.optimizers = self._optimizers()
            self.save(directory / STATE)
        for layer in self.model.model.language_model.layers:
            layer.__dict__.pop("forward", None)
            del layer.self_attn.gate
        self._attention("sdpa", "sdpa")
        return self.model

    def _attention(self, tower: str, decoder: str) -> None:
        self.model.model.vision_tower.set_attn_implementation(tower)
        self.model.model.language_model.set_attn_implementation(decoder)

    def _run_phase(self, pictures: Album, features: Tensor | None, directory: Path, watch: Watcher) -> None:
        steps = self.recipe.steps[self.phase]
        limit = None if self.minutes is None else 60 * self.minutes * steps / sum(self.recipe.steps)
        saved = time.monotonic()
        while (done := self.step / steps if limit is None else self.seconds / limit) < 1:
            started = time.monotonic()
            rate = self.recipe.rate * min(1.0, (self.step + 1) / 50) * _decay(done)
            for optimizer in self.optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = rate
            with torch.autocast(self.device.type, torch.bfloat16):
                loss, right = self._see(pictures) if features is None else self._answer(pictures, features, done)
            nn.utils.clip_grad_norm_([p for o in self.optimizers for g in o.param_groups for p in g["params"]], 1.0)
            for optimizer in self.optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            self.step += 1
            self.seconds += time.monotonic() - started
            watch(Progress(PHASES[self.phase], self.step, steps, loss, right, self.curriculum.things))
            if time.monotonic() - saved > _SAVED_EVERY_S:
                self.save(directory / STATE)
                saved = time.monotonic()

    def _see(self, pictures: Album) -> tuple[float, dict[str, float]]:
        chosen = self.rng.choice(len(pictures.scenes), self.recipe.batch[0], replace=False).tolist()
        truth = patch_labels([pictures.scenes[i] for i in chosen]).to(self.device)
        loss, right = see_loss(self.model, self.labels, pictures.prepared(chosen).to(self.device), truth)
        loss.backward()
        return loss.item(), right

    def _answer(self, pictures: Album, features: Tensor, done: float) -> tuple[float, dict[str, float]]:
        batch = self.recipe.batch[self.phase]
        ending = done > _ENDING
        deep = self.recipe.deep * max(0.0, 1 - 2 * done)
        most = MOST_HOPS if ending else self.curriculum.hops
        hops = 1 + self.step % MOST_HOPS if ending or self.step % 3 == 0 else most
        hops = min(hops, most)
        sees = self.rng.random() < max(0.15, 2 * done - 0.8)
        late = ending and self.rng.random() < 0.5
        blindfold(self.model, 0 if sees else int(self.rng.integers(1, self.recipe.blind + 1)), hops, late=late)
        chosen, places, texts, found = self._asked(pictures, hops, batch, done)
        some = features[chosen[:, None], places].to(self.device)
        loss, right = answer_loss(
            self.model, some, *(x.to(self.device) for x in (places, texts, found)), ending=ending, late=late, deep=deep
        )
        loss.backward()
        for hop, share in enumerate(right.tolist(), 1):
            self.curriculum.heard(hop, share)
        if self.step % 10 == 0:
            self.curriculum.grow(done)
        return loss.item(), {f"{hop} hops": share for hop, share in enumerate(self.curriculum.right, 1) if share}

    def _asked(self, pictures: Album, hops: int, count: int, done: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Pictures [count], their tokens' places [count, n], texts [count, Q, T], what is found [count, Q, hops]."""
        chosen, places, texts, found = [], [], [], []
        while len(chosen) < count:
            number = int(self.rng.integers(len(pictures.scenes)))
            shown = pictures.scenes[number]
            level = self.curriculum
            ground = level.ground + round(_GROUND * max(0.0, done - _ENDING) / (1 - _ENDING))
            things, kept = visible(shown, level.things, self.recipe.patches, ground, self.rng)
            try:
                asked = [ask(shown, hops, self.rng, things) for _ in range(self.recipe.questions)]
            except ValueError:  # few things may share nothing: another picture
                continue
            chosen.append(number)
            places.append(torch.tensor(kept))
            texts.append([question_ids(question, ending=done > _ENDING) for question in asked])
            found.append([[VOCABULARY[word] for word in question.found] for question in asked])
        least = min(map(len, places))  # pictures of fewer things than asked for have fewer tokens
        places = [kept[torch.from_numpy(np.sort(self.rng.permutation(len(kept))[:least]))] for kept in places]
        return torch.tensor(chosen), torch.stack(places), torch.tensor(texts), torch.tensor(found)

    @torch.no_grad()
    def features(self, pictures: Album) -> Tensor:
        """[N, V, D] of the tower as it stands, for all pictures."""
        found = []
        with torch.autocast(self.device.type, torch.bfloat16):
            for start in range(0, len(pictures.scenes), 32):
                some = pictures.prepared(range(start, min(start + 32, len(pictures.scenes)))).to(self.device)
                found.append(self.model.model.vision_tower(some).last_hidden_state[:, 1:].bfloat16().cpu())
        return torch.cat(found)

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        """Muon for the matrices inside, Adam for embeddings, heads, convolutions and everything that is no matrix."""
        inner = self.model.model
        seeing = (inner.vision_tower, inner.multi_modal_projector, self.labels)
        answering = (inner.language_model, inner.multi_modal_projector, self.model.lm_head)
        matrices, others = _sorted_parameters(seeing if self.phase == 0 else answering)
        return [
            torch.optim.Muon(matrices, lr=self.recipe.rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, lr=self.recipe.rate, betas=(0.9, 0.98), weight_decay=0.0),
        ]

    def save(self, path: Path) -> None:
        """All that going on needs, written in one piece or not at all."""
        state = {
            "recipe": asdict(self.recipe),
            "at": (self.phase, self.step, self.seconds),
            "curriculum": asdict(self.curriculum),
            "rng": self.rng.bit_generator.state,
            "model": self.model.state_dict(),
            "labels": self.labels.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def _load(self, path: Path) -> None:
        state = torch.load(path, map_location=self.device, weights_only=True)
        if Recipe(**state["recipe"]) != self.recipe:
            raise StudyError(f"{path} was made by another recipe; choose another --out, or remove it")
        self.phase, self.step, self.seconds = state["at"]
        self.curriculum = Curriculum(state["curriculum"]["things"], tuple(state["curriculum"]["right"]))
        self.rng.bit_generator.state = state["rng"]
        self.model.load_state_dict(state["model"])
        self.labels.load_state_dict(state["labels"])
        self.optimizers = self._optimizers()
        for optimizer, kept in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)


def _decay(done: float) -> float:
    """The rate over its highest: level and then straight down."""
    return min(1.0, 1.6 * (1 - done) + 0.01)


def _sorted_parameters(modules: Sequence[nn.Module]) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Matrices between hidden states, and all other parameters."""
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, child in (pair for module in modules for pair in module.named_modules()):
        outside = not isinstance(child, nn.Linear) or "head" in name or child.out_features == len(VOCABULARY)
        for parameter in child.parameters(recurse=False):
            (others if outside or parameter.ndim != 2 else matrices).append(parameter)
    return matrices, others
