"""The training run of the pocket model: two phases that a CPU can afford.

1. *See.* The vision tower and the projector learn what each patch shows. They say it in the decoder's own word
   embeddings.
2. *Answer.* The tower is frozen and its features are stored. The decoder first sees a few of each picture's things,
   then more and more of them, and later more and more of the ground. It learns quickly to find one thing among three,
   and slowly to find one among thirty.

Many questions share one picture: its tokens are a prefix that all questions read (`packing.Packing`). In this phase
some layers do not let the questions see the picture (`packing.blindfold`). Without this, each word looks up in the very
first layer everything that shares it, before it knows the word beside it or what the hop before has found, and training
does not get beyond that. Once prompts have their ending, half of them keep the words of the last hop from seeing the
picture. The answer is then looked for where it is given, at the end of the prompt, as in larger models.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import LlavaForConditionalGeneration

from pocket_training.checkpoint import VOCABULARY, untrained
from pocket_training.curriculum import Curriculum
from pocket_training.losses import Labels, answer_loss, see_loss
from pocket_training.packing import blindfold, question_ids
from pocket_training.pictures import Album, album, patch_labels, visible
from pocket_training.recipe import PHASES, Progress, Recipe, Watcher
from trio_profile.errors import StudyError
from trio_profile.inputs.pocket.grammar import MOST_HOPS, ask

STATE = "training.pt"
"""The file that a run leaves in its directory, to continue from."""
_SAVED_EVERY_S = 120.0
_ENDING = 0.55
"""The share of the second phase after which prompts have their ending, and ground is added."""
_GROUND = 300
"""How many empty patches are added by the end of the second phase."""


class Training:
    """A run of the recipe. It can be saved after any step and continued later.

    recipe: the settings.
    device: where the model is trained.
    minutes: time for both phases, which replaces the recipe's steps. It is divided in their proportion.
    compiled: whether the decoder's layers are compiled.
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
        """Run the remaining phases and return the trained model, with the library's own attention.

        directory: where the state is saved. A run continues from the state that it holds.
        watch: called after every step.
        Raises StudyError if another recipe made the state in `directory`.
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
        """A batch of questions: pictures [count], places of their tokens [count, n], texts [count, Q, T], found ids.

        The found ids have the shape [count, Q, hops].
        """
        chosen, places, texts, found = [], [], [], []
        while len(chosen) < count:
            number = int(self.rng.integers(len(pictures.scenes)))
            shown = pictures.scenes[number]
            level = self.curriculum
            ground = level.ground + round(_GROUND * max(0.0, done - _ENDING) / (1 - _ENDING))
            things, kept = visible(shown, level.things, self.recipe.patches, ground, self.rng)
            try:
                asked = [ask(shown, hops, self.rng, things) for _ in range(self.recipe.questions)]
            except ValueError:  # few things may share no property: try another picture
                continue
            chosen.append(number)
            places.append(torch.tensor(kept))
            texts.append([question_ids(question, ending=done > _ENDING) for question in asked])
            found.append([[VOCABULARY[word] for word in question.values] for question in asked])
        least = min(map(len, places))  # a picture with fewer things than asked for has fewer tokens
        places = [kept[torch.from_numpy(np.sort(self.rng.permutation(len(kept))[:least]))] for kept in places]
        return torch.tensor(chosen), torch.stack(places), torch.tensor(texts), torch.tensor(found)

    @torch.no_grad()
    def features(self, pictures: Album) -> Tensor:
        """[N, V, D] the tower's output for all pictures."""
        found = []
        with torch.autocast(self.device.type, torch.bfloat16):
            for start in range(0, len(pictures.scenes), 32):
                some = pictures.prepared(range(start, min(start + 32, len(pictures.scenes)))).to(self.device)
                found.append(self.model.model.vision_tower(some).last_hidden_state[:, 1:].bfloat16().cpu())
        return torch.cat(found)

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        """Muon for the inner matrices; Adam for embeddings, heads, convolutions and all that is not a matrix."""
        inner = self.model.model
        seeing = (inner.vision_tower, inner.multi_modal_projector, self.labels)
        answering = (inner.language_model, inner.multi_modal_projector, self.model.lm_head)
        matrices, others = _sorted_parameters(seeing if self.phase == 0 else answering)
        return [
            torch.optim.Muon(matrices, lr=self.recipe.rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, lr=self.recipe.rate, betas=(0.9, 0.98), weight_decay=0.0),
        ]

    def save(self, path: Path) -> None:
        """Write everything that a later run needs to continue. The file is replaced in one step."""
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
            raise StudyError(f"{path} was made by another recipe; choose another --out, or remove the file")
        self.phase, self.step, self.seconds = state["at"]
        self.curriculum = Curriculum(state["curriculum"]["things"], tuple(state["curriculum"]["right"]))
        self.rng.bit_generator.state = state["rng"]
        self.model.load_state_dict(state["model"])
        self.labels.load_state_dict(state["labels"])
        self.optimizers = self._optimizers()
        for optimizer, kept in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)


def _decay(done: float) -> float:
    """The learning rate divided by its highest value: constant at first, then a straight line down."""
    return min(1.0, 1.6 * (1 - done) + 0.01)


def _sorted_parameters(modules: Sequence[nn.Module]) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The matrices between hidden states, and all other parameters."""
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, child in (pair for module in modules for pair in module.named_modules()):
        outside = not isinstance(child, nn.Linear) or "head" in name or child.out_features == len(VOCABULARY)
        for parameter in child.parameters(recurse=False):
            (others if outside or parameter.ndim != 2 else matrices).append(parameter)
    return matrices, others
