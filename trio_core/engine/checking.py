"""The trial of a model that no file knows: is pruning right on it?

It has a random picture. Where none can be made the model is refused. Only the trial of a known family goes without:
there words are embedded at the placeholders. `prune` is an argument, because `prune` itself runs the trial before it
touches such a model.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import signature
from math import ceil, isqrt
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers import PreTrainedModel

from trio_core.errors import TrioError, UnsupportedModel
from trio_core.methods.method import Method
from trio_core.models import adapter_for
from trio_core.models.adapter import Adapter
from trio_core.models.toy import generated

Prune = Callable[..., AbstractContextManager[Any]]
Inputs = dict[str, Tensor]

LEAST = 8
"""Visual tokens of a prompt that is worth a trial."""

BEFORE, PICTURE, AFTER = 4, 12, 8
"""Tokens of the prompt."""
PROMPTS = 3
STEPS = 3
"""Tokens to generate."""

_checks: WeakKeyDictionary[PreTrainedModel, dict[str, "Check"]] = WeakKeyDictionary()
"""The results for a model, by its attention."""


@dataclass(frozen=True)
class Check:
    """The result of a trial; None for a question that could not be asked.

    identical: whether at retention 1 the logits are the dense model's, bit by bit.
    difference: the largest difference of tail saliency from autograd's, relative to the largest score.
    same_kept: whether both keep the same tokens, ties aside.
    generates: whether each decode step's logits are those of the pruned prompt with the new tokens behind it.
    faults: what failed, a line each.
    apart: the faults that concern only methods that take a layer apart (`Method.needs_layer_parts`).
    picture: whether the prompt had a picture.
    runs: whether the model runs dense. If it does not, nothing else was asked.
    """

    identical: bool | None = None
    difference: float | None = None
    same_kept: bool | None = None
    generates: bool | None = None
    faults: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    picture: bool = False
    runs: bool = True


def self_check(model: PreTrainedModel, prune: Prune) -> Check:
    """Try a model, as it is, with `prune`; first without, so that a fault of its own is not taken for one of pruning.

    In half precision rounding can tip a pseudo-label over, and every score with it; a wrong formula is wrong on any
    prompt. So where the saliencies differ, other prompts are tried before that counts.
    """
    checks, attention = _checks.setdefault(model, {}), adapter_for(model).attention
    checks[attention] = Check()  # while the check itself prunes
    try:
        checks[attention] = seen = _tried(model, prune)
    except BaseException:
        del checks[attention]
        raise
    return seen


def _tried(model: PreTrainedModel, prune: Prune) -> Check:
    """The answers of a trial."""
    trial, faults = _Trial(model, prune), list[str]()

    def ask(question: Callable[[], Any]) -> Any:
        try:
            with torch.no_grad(), torch.autocast(model.device.type, enabled=False), trial.words_for_the_picture():
                return question()
        except TrioError as error:
            faults.append(f"{question.__name__}: {error}")
        except Exception as error:  # a class we do not know may break in any way, and that is the answer
            faults.append(f"{question.__name__} breaks: {_message(error)}")

    checked = partial(Check, picture=trial.picture is not None)
    for question in (trial.dense_forward, trial.dense_generate):
        ask(question)
        if faults:
            return checked(faults=tuple(faults), runs=False)
    if strange := trial.strange_layers():
        return checked(faults=(strange,))
    identical, readout, generated = ask(trial.full_retention), ask(trial.readout), ask(trial.generate)
    if identical is False:
        faults.append("at retention 1 the logits are not the dense model's")
    if readout is not None and not readout <= trial.tolerance:
        faults.append(f"norm and head give logits that differ from the model's by {readout:.1g} of the largest logit")
    if generated is not None and not generated <= 10 * trial.tolerance:
        faults.append(
            f"decoding gives logits that differ from a longer prompt's by {generated:.1g} of the largest logit"
        )
    if trial.no_picture:
        faults.append(f"we could not make a picture to try it with: {trial.no_picture}")
    concerning_all, saliency = len(faults), ask(trial.saliency)
    for seed in range(1, PROMPTS):
        if saliency is None or (saliency[0] <= trial.scores_tolerance and saliency[1]):
            break
        trial = _Trial(model, prune, seed)
        saliency = ask(trial.saliency)
    difference, same_kept = saliency or (None, None)
    if difference is not None and not difference <= trial.scores_tolerance:
        faults.append(f"saliency by `tail` differs from `autograd` by {difference:.1g} of the largest score")
    if same_kept is False:
        faults.append("saliency by `tail` and by `autograd` keep different tokens")
    generates = None if generated is None else generated <= 10 * trial.tolerance
    return checked(identical, difference, same_kept, generates, tuple(faults), tuple(faults[concerning_all:]))


def check_unknown(adapter: Adapter, method: Method, prune: Prune) -> None:
    """Try a model of a class or with a decoder we do not know, once. Raises UnsupportedModel naming what failed."""
    if adapter.known:
        return
    model = adapter.model
    seen = _checks.get(model, {}).get(adapter.attention) or self_check(model, prune)
    unknown = (
        f"model class {type(model).__name__} with a {model.config.get_text_config().model_type!r} decoder is not known"
    )
    if not seen.runs:
        prompt = "with a random picture" if seen.picture else "of words"
        raise UnsupportedModel(f"{unknown}, and on a prompt {prompt} it does not run, pruned or not: {seen.faults[0]}")
    if faults := [fault for fault in seen.faults if method.needs_layer_parts or fault not in seen.apart]:
        raise UnsupportedModel(
            f"{unknown}, and a test of pruning it failed: {faults[0]}; to support it, add a file to trio_core/models"
        )


class _Trial:
    """A model, a prompt for it, and the questions."""

    def __init__(self, model: PreTrainedModel, prune: Prune, seed: int = 0):
        self.model, self.prune, self.adapter = model, prune, adapter_for(model)
        half = model.dtype.itemsize < 4
        self.tolerance = 0.1 if half else 1e-5
        # The slope of the loss is a difference of probabilities. Where the model is sure, half of its digits cancel.
        self.scores_tolerance = max(self.tolerance, torch.finfo(model.dtype).eps ** 0.5)
        placeholders = self.adapter.placeholder_ids()
        vocabulary = torch.arange(1, model.config.get_text_config().vocab_size)
        vocabulary = vocabulary[~torch.isin(vocabulary, torch.tensor(placeholders))]
        drawn = torch.randperm(len(vocabulary), generator=torch.Generator().manual_seed(seed))
        self.words = vocabulary[drawn[: BEFORE + PICTURE + AFTER]][None].to(model.device)
        self.picture, self.prompt, self.no_picture = None, self._prompt(PICTURE), ""
        if not self.adapter.known:
            self.picture, self.no_picture = random_picture(model, self._runs, seed)
            self.prompt = self._prompt(self.picture[1] if self.picture else PICTURE)
        depth = len(self.adapter.layers)
        self.stages = {"retention": 0.5, "layers": (1, depth // 2) if depth > 3 else (1,)}

    def _prompt(self, visual_tokens: int) -> Tensor:
        """[1, S]: words, placeholders, words."""
        before, _, after = self.words.split([BEFORE, PICTURE, AFTER], dim=1)
        return torch.cat([before, before.new_full((1, visual_tokens), self.adapter.placeholder_ids()[0]), after], dim=1)

    def _runs(self, picture: dict[str, Tensor], visual_tokens: int) -> None:
        self.picture = picture, visual_tokens
        with torch.no_grad():
            self.model(**self.inputs(self._prompt(visual_tokens)))

    @contextmanager
    def words_for_the_picture(self) -> Iterator[None]:
        """Words are embedded where the prompt has placeholders: each place its own, as in a picture.

        A prompt with a picture stays as it is.
        """
        if self.picture is not None:
            yield
            return

        def exchange(_module: torch.nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            length = self.words.shape[1]
            if args[0].shape[1] < length:
                return args
            return (torch.cat([self.words, args[0][:, length:]], dim=1), *args[1:])

        with self.model.get_input_embeddings().register_forward_pre_hook(exchange):
            yield

    def inputs(self, ids: Tensor) -> dict[str, Tensor]:
        """The model's arguments for the prompt with new tokens behind it."""
        picture = {} if self.picture is None else self.picture[0]
        if picture and "mm_token_type_ids" in signature(self.model.forward).parameters:
            picture = {**picture, "mm_token_type_ids": (ids == self.adapter.placeholder_ids()[0]).int()}
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            **picture,
            **self.adapter.extra_inputs(ids, self.prompt.shape[1]),
        }

    def dense_forward(self) -> None:
        self.calls = list[tuple[int, Any]]()
        with ExitStack() as hooks:
            for index, layer in enumerate(self.adapter.layers):
                hook = partial(self._listen, index)
                hooks.enter_context(layer.register_forward_pre_hook(hook, with_kwargs=True))
            self.model(**self.inputs(self.prompt))

    def _listen(self, index: int, _layer: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        self.calls.append((index, kwargs.get("position_embeddings")))

    def strange_layers(self) -> str | None:
        """The first thing in the dense forward's calls of its layers that pruning cannot handle, in words."""
        order = [index + 1 for index, _ in self.calls]
        if order != [*range(1, len(self.adapter.layers) + 1)]:
            return f"its decoder layers run in the order {', '.join(map(str, order))}, and not each once"
        for index, rotary in self.calls:
            if not (isinstance(rotary, tuple | list) and [getattr(part, "ndim", 0) for part in rotary] == [3, 3]):
                form = f"a {type(rotary).__name__}" if rotary is not None else "none"
                return f"decoder layer {index + 1} gets {form} as position_embeddings, and no pair of cosines and sines"
        return None

    def dense_generate(self) -> None:
        self._generate()

    def full_retention(self) -> bool:
        dense = self.model(**self.inputs(self.prompt)).logits
        with self.prune(self.model, "random", retention=1.0):
            return torch.equal(self.model(**self.inputs(self.prompt)).logits, dense)

    def readout(self) -> float:
        last: list[Any] = []
        with self.adapter.layers[-1].register_forward_hook(lambda *seen: last.append(seen[-1])):
            logits = self.model(**self.inputs(self.prompt)).logits
        ours = self.adapter.readout(last[0][0] if isinstance(last[0], tuple) else last[0])
        return ((ours - logits).abs().max() / logits.abs().max()).item()

    def saliency(self) -> tuple[float, bool]:
        traces = []
        for saliency in ("tail", "autograd"):
            with self.prune(self.model, "trio", saliency=saliency, nms=False, **self.stages) as trace:
                self.model(**self.inputs(self.prompt))
            traces.append(trace.stages)
        worst = 0.0
        for tail, plain in zip(*traces, strict=True):
            ours, oracle = tail.scores[0].double(), plain.scores[0].double()
            largest = oracle.nan_to_num().max()
            worst = max(worst, ((ours - oracle).nan_to_num().abs().max() / largest).item())
            by_tail, by_autograd = (set(stage.kept[0].tolist()) for stage in (tail, plain))
            if by_tail != by_autograd:
                # From this stage on the two runs see different tokens. A difference between tied tokens is no fault.
                doubtful = oracle[list(by_tail ^ by_autograd)] - oracle[list(by_autograd)].min()
                return worst, bool((doubtful.abs() <= self.scores_tolerance * largest).all())
        return worst, True

    def generate(self) -> float:
        with self.prune(self.model, "random", **self.stages):
            made = self._generate()
            longer = self.model(**self.inputs(made.sequences[:, :-1])).logits[:, -STEPS:]
        return ((torch.stack(made.logits, dim=1) - longer).abs().max() / longer.abs().max()).item()

    def _generate(self) -> Any:
        return generated(self.model, self.inputs(self.prompt), STEPS, self.adapter.placeholder_ids())


# --- a random picture for a class that no file knows -----------------------------------------------------------------


def random_picture(
    model: PreTrainedModel, runs: Callable[[Inputs, int], Any], seed: int
) -> tuple[tuple[Inputs, int] | None, str]:
    """The model's arguments for one picture or several, and their number of visual tokens; or None and what broke.

    Classes take pictures in a few forms. The first form is returned on which the model runs. It has several pictures if
    one has few tokens.

    runs: runs the model on a prompt with the pictures and as many placeholders. It may raise anything.
    """
    inner: Any = model.base_model if hasattr(model.base_model, "get_image_features") else model
    if not hasattr(inner, "get_image_features"):
        return None, f"{type(model).__name__} has no get_image_features"
    arguments, taken = signature(model.forward).parameters, signature(inner.get_image_features).parameters
    required = {
        name for name, part in taken.items() if part.default is part.empty and part.kind is not part.VAR_KEYWORD
    }
    broken = ""

    def encoded(form: Callable[[int], Inputs], count: int) -> tuple[Inputs, int]:
        inputs = {name: value.to(model.device) for name, value in form(count).items()}
        inputs = {name: value.to(model.dtype) if value.is_floating_point() else value for name, value in inputs.items()}
        features = inner.get_image_features(**{name: inputs[name] for name in inputs.keys() & taken.keys()})
        return inputs, _tokens(features)

    for form in _forms(model.config, torch.Generator().manual_seed(seed)):
        if not required <= form(1).keys() <= arguments.keys():
            continue
        try:
            with torch.no_grad():
                inputs, tokens = encoded(form, 1)
                if tokens < LEAST:
                    inputs, tokens = encoded(form, ceil(LEAST / tokens))
                runs(inputs, tokens)
                return (inputs, tokens), ""
        except (torch.OutOfMemoryError, torch.AcceleratorError):  # after these nothing else could be tried either
            raise
        except Exception as error:  # a class we do not know may break in any way on a form that is not its own
            broken = broken or _message(error)
    return None, broken or f"its get_image_features wants {', '.join(sorted(required))}"


def _forms(config: Any, generator: torch.Generator) -> Iterator[Callable[[int], Inputs]]:
    """Pictures as whole images, as tiles of a size, and as rows of patches. Each form makes so many pictures."""
    vision = getattr(config, "vision_config", config)

    def read(*names: str, default: int, parts: tuple[Any, ...] = (vision, config)) -> int:
        values = (getattr(part, name, None) for name in names for part in parts)
        value = next((value for value in values if value is not None), default)
        return value if isinstance(value, int) else value[0]

    def pixels(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    channels = read("num_channels", "in_channels", "in_chans", default=3)
    patch, merge = read("patch_size", default=14), read("spatial_merge_size", "merge_size", default=2)
    side = read("image_size", "img_size", default=4 * patch * merge)
    # Aria's projector names the numbers of patches that it takes.
    numbers = [*map(int, getattr(config, "projector_patch_to_query_dict", None) or ())]
    for size in dict.fromkeys((side, *(patch * isqrt(number) for number in numbers))):
        yield lambda count, size=size: {"pixel_values": pixels(count, channels, size, size)}
    yield lambda count: {"pixel_values": pixels(1, count, channels, side, side)}
    yield lambda count: {
        "pixel_values": pixels(1, count, channels, side, side),
        "pixel_attention_mask": torch.ones(1, count, dtype=torch.bool),
    }
    if (second := getattr(config, "high_res_vision_config", None)) is not None:
        large = read("image_size", default=side, parts=(second,))
        yield lambda count: {
            "pixel_values": pixels(count, channels, side, side),
            "high_res_pixel_values": pixels(count, channels, large, large),
        }
    small = 4 * patch * merge  # for towers that take any size
    yield lambda count: {
        "pixel_values": pixels(count, channels, small, small),
        "image_sizes": torch.tensor([[small, small]] * count),
    }
    for height, width in getattr(config, "image_grid_pinpoints", None) or ():
        tiles = 1 + (height // side) * (width // side)
        yield lambda count, tiles=tiles, size=(height, width): {
            "pixel_values": pixels(count, tiles, channels, side, side),
            "image_sizes": torch.tensor([size] * count),
        }
    values, rows = channels * patch**2, 16 * merge**2
    for frames in dict.fromkeys((1, read("temporal_patch_size", default=2))):
        for shape in ((values * frames,), (channels, patch, patch * frames)):
            yield lambda count, shape=shape: {
                "pixel_values": pixels(count * rows, *shape),
                "image_grid_thw": torch.tensor([[1, 4 * merge, 4 * merge]] * count),
            }
        yield lambda count, frames=frames: {
            "pixel_values": pixels(count * rows, values * frames),
            "image_grid_thw": torch.tensor([[1, 4 * merge, 4 * merge]] * count),
            "image_merge_sizes": torch.tensor([merge] * count),
        }


def _tokens(features: Any) -> int:
    """How many visual tokens the output of `get_image_features` has."""
    made = getattr(features, "pooler_output", features)
    if made is None:
        made = features.deepstack_features[0][1]
    parts = [made] if isinstance(made, Tensor) else made
    return sum(part.numel() // part.shape[-1] for part in parts)


def _message(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
