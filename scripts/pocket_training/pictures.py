"""The training pictures: their pixels, what each patch shows, and the part that the decoder sees."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pocket_training.checkpoint import TRAINED_FROM, VISUAL_TOKENS, processor
from trio_profile.inputs.pocket.scenes import PROPERTIES, VALUES, Scene, Thing, render, scene


@dataclass(frozen=True)
class Album:
    """The training pictures.

    scenes: what each picture shows.
    pixels: [N, 3, side, side] bytes.
    """

    scenes: tuple[Scene, ...]
    pixels: Tensor

    def prepared(self, chosen: Sequence[int]) -> Tensor:
        """The pixel values of some pictures, as the model's processor prepares them: [n, 3, side, side]."""
        images = processor().image_processor
        mean, std = (torch.tensor(value)[:, None, None] for value in (images.image_mean, images.image_std))
        return (self.pixels[list(chosen)] / 255 - mean) / std


def album(count: int) -> Album:
    """The first `count` training pictures."""
    scenes = tuple(scene(TRAINED_FROM + number) for number in range(count))
    pixels = np.stack([np.asarray(render(each)) for each in scenes])
    return Album(scenes, torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous())


def patch_labels(scenes: Sequence[Scene]) -> Tensor:
    """[B, V, 3] the value of each property at each patch, counted from 1; 0 where there is no thing."""
    labels = torch.zeros(len(scenes), VISUAL_TOKENS, len(PROPERTIES), dtype=torch.long)
    for b, each in enumerate(scenes):
        for thing in each.things:
            labels[b, list(thing.patches())] = torch.tensor([VALUES[of].index(thing[of]) + 1 for of in PROPERTIES])
    return labels


def visible(
    shown: Scene, things: int, patches: float, ground: int, rng: np.random.Generator
) -> tuple[list[Thing], list[int]]:
    """Some of a picture's things, and the visual tokens that the decoder sees: their places, ascending.

    things: how many things are drawn.
    patches: share of these things' patches that are seen.
    ground: number of empty patches that are seen too.
    """
    chosen = [shown.things[i] for i in rng.permutation(len(shown.things))[:things]]
    mine = rng.permutation([patch for thing in chosen for patch in thing.patches()])
    rest = np.setdiff1d(np.arange(VISUAL_TOKENS), [patch for thing in shown.things for patch in thing.patches()])
    kept = [*mine[: round(patches * len(mine))].tolist(), *rng.permutation(rest)[:ground].tolist()]
    return chosen, sorted(kept)
