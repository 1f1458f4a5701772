"""Train the projector between a frozen tower and a frozen language model, and matrices of low rank beside its weights.

Features of the tower are [P, 384] for a picture of P patches, visual tokens [P, 576].
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from smol_training.packing import Packing, shares
from smol_training.recipe import Phase, Recipe
from trio_profile.errors import StudyError
from trio_profile.inputs.questions import Question
from trio_profile.inputs.smol import assembly
from trio_profile.inputs.smol.shapes import (
    COLOURS,
    FIRST_TRAINING,
    KINDS,
    SHAPES,
    SIDE,
    Scene,
    Thing,
    ask,
    cover,
    render,
    scene,
)

SAVED = "training.pt"
_EVERY = 100
"""Steps between two saves."""
_TESTED = 16
"""Pictures of each look at the progress. They are made as those of the training, of seeds that it does not reach."""
_FIRST = 2 * FIRST_TRAINING
"""Seed of the first picture of a training. Those of the looks lie before."""
_A_SEED = 10_000_000
"""The pictures of two trainings with other seeds lie so far apart."""


class Projector(nn.Module):
    """LLaVA's projector on features of mean 0 and deviation 1."""

    def __init__(self, mean: Tensor, deviation: Tensor, width: int):
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(len(mean), width), nn.Linear(width, width)
        self.mean, self.deviation = nn.Buffer(mean), nn.Buffer(deviation)

    def forward(self, features: Tensor) -> Tensor:
        """[…, 384] → […, 576]."""
        standard = (features - self.mean) / self.deviation
        return self.linear_2(functional.gelu(self.linear_1(standard)))

    def folded(self) -> dict[str, Tensor]:
        """Return its weights for features as they are."""
        weight = self.linear_1.weight / self.deviation
        return {
            "linear_1.weight": weight,
            "linear_1.bias": self.linear_1.bias - weight @ self.mean,
            "linear_2.weight": self.linear_2.weight,
            "linear_2.bias": self.linear_2.bias,
        }


class LowRank(nn.Module):
    """A frozen linear layer, to whose weight 2 · B · A is added."""

    def __init__(self, frozen: nn.Linear, rank: int):
        super().__init__()
        self.frozen = frozen
        self.A = nn.Parameter(torch.randn(rank, frozen.in_features) * frozen.in_features**-0.5)
        self.B = nn.Parameter(torch.zeros(frozen.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """[…, I] → […, O]."""
        return self.frozen(x) + (x @ self.A.T) @ (2 * self.B.T)


@dataclass(frozen=True)
class Progress:
    """The state of a training after a step: which of how many, the loss, and the right answers by kind if looked at."""

    step: int
    steps: int
    loss: float
    right: dict[str, float]


class Training:
    """A training that can be continued. All of it is in float32: many CPUs compute it faster than bfloat16."""

    def __init__(self, recipe: Recipe):
        self.recipe = recipe
        torch.manual_seed(recipe.seed)
        model = cast(Any, assembly.untrained().requires_grad_(False)).model
        self.tower, self.decoder = model.vision_tower, model.language_model
        self.embeddings = self.decoder.embed_tokens.weight
        self.packing = Packing(assembly.processor().tokenizer)
        self.low_rank: dict[str, LowRank] = {}
        for name, linear in [part for part in self.decoder.named_modules() if isinstance(part[1], nn.Linear)]:
            self.low_rank[name] = LowRank(linear, recipe.rank)
            self.decoder.set_submodule(name, self.low_rank[name])

    def run(self, directory: Path, watch: Callable[[Progress], None]) -> dict[str, Tensor]:
        """Train, or go on after the last save, and return the trained weights in float16."""
        saved = directory / SAVED
        if saved.is_file():
            state = torch.load(saved, weights_only=True)
            if state["recipe"] != asdict(self.recipe):
                raise StudyError(f"{saved} was made by another recipe; choose another --out, or remove the file")
            self.projector = Projector(torch.zeros(384), torch.ones(384), self.embeddings.shape[1])
            self.projector.load_state_dict(state["projector"])
            for name, weights in state["low_rank"].items():
                self.low_rank[name].load_state_dict(weights, strict=False)
        else:
            state: dict[str, Any] = {"step": 0}
            self.projector = self._naming(watch)
        optimizer = self._optimizer()
        if saved.is_file():
            optimizer.load_state_dict(state["optimizer"])
        recipe = self.recipe
        for step in range(state["step"], recipe.steps):
            for group in optimizer.param_groups:
                group["lr"] = group["highest"] * self._share(step)
            loss = self._step(step)
            loss.backward()
            nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], recipe.clip)
            optimizer.step()
            optimizer.zero_grad()
            done = step + 1
            is_saved = done % _EVERY == 0 or done == recipe.steps
            right = self._looked(self._phase(step)) if is_saved else {}
            watch(Progress(done, recipe.steps, float(loss.detach()), right))
            if is_saved:
                state = {
                    "recipe": asdict(self.recipe),
                    "step": done,
                    "projector": self.projector.state_dict(),
                    "low_rank": {name: {"A": part.A.data, "B": part.B.data} for name, part in self.low_rank.items()},
                    "optimizer": optimizer.state_dict(),
                }
                torch.save(state, saved.with_suffix(".new"))
                saved.with_suffix(".new").replace(saved)
        return self._trained()

    def _trained(self) -> dict[str, Tensor]:
        weights = {f"projector.{name}": weight for name, weight in self.projector.folded().items()}
        for name, part in self.low_rank.items():
            weights |= {f"{name}.A": part.A, f"{name}.B": 2 * part.B}
        return {name: weight.detach().half().contiguous() for name, weight in weights.items()}

    def _optimizer(self) -> torch.optim.Optimizer:
        _, projector, low_rank = self.recipe.rates
        matrices = [matrix for part in self.low_rank.values() for matrix in (part.A, part.B)]
        groups = [
            {"params": list(self.projector.parameters()), "highest": projector},
            {"params": matrices, "highest": low_rank},
        ]
        return torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=self.recipe.weight_decay)

    def _share(self, step: int) -> float:
        """Of the highest learning rate."""
        warm = min(1.0, (step + 1) / self.recipe.warm_up)
        return warm * (0.02 + 0.98 * (0.5 + 0.5 * math.cos(math.pi * step / self.recipe.steps)))

    # --- the tower --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _features(self, pictures: list[Image.Image], side: int) -> Tensor:
        """[C, P, 384]."""
        pixels = np.stack([np.asarray(picture.resize((side, side), Image.Resampling.BICUBIC)) for picture in pictures])
        mean, deviation = (torch.tensor(of).view(3, 1, 1) for of in (assembly.MEAN, assembly.DEVIATION))
        values = (torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255 - mean) / deviation
        states = self.tower(values, output_hidden_states=True).hidden_states
        return states[-2][:, 1:]

    def _naming(self, watch: Callable[[Progress], None]) -> Projector:
        """Return a projector that makes of a patch what the decoder knows as the words of its colour and its shape."""
        recipe, rng = self.recipe, np.random.default_rng(self.recipe.seed)
        scenes = [scene(seed) for seed in self._seeds(0, recipe.named_pictures)]
        features = torch.cat([self._features([render(content)], SIDE)[0] for content in scenes])
        names = torch.cat([self._names(content) for content in scenes])
        projector = Projector(features.mean(0), features.std(0) + 1e-4, self.embeddings.shape[1])
        optimizer = torch.optim.AdamW(projector.parameters(), lr=recipe.rates[0])
        for step in range(recipe.named_steps):
            optimizer.param_groups[0]["lr"] = recipe.rates[0] * (1 - step / recipe.named_steps)
            some = torch.from_numpy(rng.integers(len(features), size=recipe.named_patches))
            loss = functional.mse_loss(projector(features[some]), names[some]) / names.var()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            watch(Progress(step + 1, recipe.named_steps, float(loss.detach()), {}))
        return projector

    def _names(self, content: Scene) -> Tensor:
        """[576, 576]: of each patch the sum of its words' embeddings; of the photograph that of " picture"."""
        words = {word: self.embeddings[self.packing.ids(f" {word}")].sum(0) for word in (*COLOURS, *SHAPES)}
        wide = SIDE // assembly.PATCH
        names = self.embeddings[self.packing.ids(" picture")].sum(0).repeat(wide * wide, 1)
        for thing in content.things:
            names[_covered([thing], SIDE)] = words[thing.colour] + words[thing.shape]
        return names

    # --- questions --------------------------------------------------------------------------------------------------

    def _seeds(self, first: int, count: int) -> Iterator[int]:
        start = _FIRST + self.recipe.seed * _A_SEED + first
        return iter(range(start, start + count))

    def _phase(self, step: int) -> Phase:
        for phase in self.recipe.phases:
            if step < phase.steps:
                return phase
            step -= phase.steps
        raise ValueError(f"step {step} is beyond the last phase")

    def _step(self, step: int) -> Tensor:
        phase = self._phase(step)
        most = max(phase.pictures for phase in self.recipe.phases)
        seeds = list(self._seeds(self.recipe.named_pictures + step * most, phase.pictures))
        logits, targets, *_ = self._answer(seeds, phase)
        return functional.cross_entropy(logits, targets)

    @torch.no_grad()
    def _looked(self, phase: Phase) -> dict[str, float]:
        right: list[bool] = []
        kinds: list[str] = []
        for number in range(_TESTED):
            logits, targets, numbers, (asked,) = self._answer([FIRST_TRAINING + number], phase)
            correct = logits.argmax(-1) == targets
            right += [bool(correct[numbers == n].all()) for n in range(phase.questions)]
            kinds += [question.kind for question in asked]
        return shares(right, kinds)

    def _answer(self, seeds: list[int], phase: Phase) -> tuple[Tensor, Tensor, Tensor, list[list[Question]]]:
        """Return logits [N, V], targets [N] and question numbers [N] of the answers' tokens, and the questions."""
        scenes = [scene(seed, *phase.things) for seed in seeds]
        asked: list[list[Question]] = []
        for seed, content in zip(seeds, scenes, strict=True):
            rng = np.random.default_rng((seed, 1))
            asked.append([ask(content, KINDS[n % len(KINDS)], rng) for n in range(phase.questions)])
        visual = self.projector(self._features([render(content) for content in scenes], phase.side))
        places = torch.stack([_seen(*pair, phase) for pair in zip(scenes, seeds, strict=True)])
        visual = visual.gather(1, places[..., None].expand(-1, -1, visual.shape[2]))
        rows = self.packing.rows(asked, places, (phase.side // assembly.PATCH) ** 2)
        embedded = functional.embedding(rows.tokens, self.embeddings)
        end = rows.first + visual.shape[1]
        embedded = torch.cat([embedded[:, : rows.first], visual, embedded[:, end:]], 1)
        states = self.decoder(
            inputs_embeds=embedded, attention_mask=rows.visible, position_ids=rows.positions, use_cache=False
        ).last_hidden_state
        where = rows.answers
        return states[where] @ self.embeddings.T, rows.targets[where], rows.question[where], asked


def _covered(things: Iterable[Thing], side: int) -> Tensor:
    """[P], True for the patches of a picture of this side that things cover by 0.3 or more."""
    covered = np.zeros((SIDE, SIDE), np.float32)
    for thing in things:
        covered[thing.top : thing.top + thing.size, thing.left : thing.left + thing.size] = np.asarray(cover(thing))
    wide = side // assembly.PATCH
    patches = covered.reshape(wide, SIDE // wide, wide, SIDE // wide).mean((1, 3))
    return torch.from_numpy(patches.ravel() > 0.3 * 255)


def _seen(content: Scene, seed: int, phase: Phase) -> Tensor:
    """[N], the patches that the decoder sees in a phase, ascending."""
    covered = _covered(content.things, phase.side).numpy()
    order = np.random.default_rng((seed, 2)).permutation(len(covered))
    first = order[np.argsort(~covered[order], kind="stable")]  # those of the things first
    return torch.from_numpy(np.sort(first[: phase.tokens or None]))
