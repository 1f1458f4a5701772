"""The proof of a known family on a release of transformers that was not tested.

A toy of the family is pruned. The oracle is the same toy with eager attention, outside of `prune`. There nothing is
cut: the masks hide the dropped tokens from the layers behind each stage. `prune` is an argument, because `prune` itself
asks for the proof.
"""

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from trio_core.engine.checking import STEPS, Inputs, Prune
from trio_core.errors import UnsupportedModel, first_line
from trio_core.models.adapter import Adapter, families
from trio_core.models.toy import PER_TOKEN, batch, generated
from trio_core.releases import TESTED, USE_TESTED, installed, is_tested
from trio_core.rules.equations import proxy_loss
from trio_core.trace import StageTrace

STAGES = {"retention": 0.5, "layers": (1, 3)}
"""Where the toys are pruned."""
AFTER = 9
"""Words behind a toy's picture."""
TOLERANCE = 1e-3
"""The largest difference from the oracle, as a share of its largest value."""

_proved: set[tuple[str, ...]] = set()
"""The classes that held, each with its decoder and its attention."""
_proving = threading.RLock()
"""Another thread waits until the proof has an answer."""


def check_release(adapter: Adapter, prune: Prune) -> None:
    """Prove a known family once in a process, unless the release of transformers was tested. Warns where it holds.

    A failure is not remembered: a program may have a global hook for a while that no release has.

    Raises UnsupportedModel that names the release and what failed.
    """
    if is_tested() or not adapter.known:
        return
    family, release = like(adapter), f"transformers {installed()}"
    attention = adapter.attention if adapter.attention in family.toy_attention else family.toy_attention[-1]
    key = (*family.classes, str(family.toy_text.get("model_type")), attention)
    with _proving:
        if key in _proved:
            return
        _proved.add(key)  # while the proof itself prunes
        failed = "it was interrupted"
        try:
            failed = fault(family, attention, prune)
        finally:
            if failed:
                _proved.remove(key)
    if failed:
        raise UnsupportedModel(
            f"prune() was not tested on {release}, and a toy of {family.family} fails there ({failed}): {USE_TESTED}"
        )
    warnings.warn(
        f"prune() was not tested on {release} ({' and '.join(TESTED)} were); a toy of {family.family} was pruned and "
        "held",
        RuntimeWarning,
        stacklevel=4,
    )


def like(adapter: Adapter) -> type[Adapter]:
    """The family of a model, whose toys have the model's class and its kind of decoder."""
    own, decoder = type(adapter), adapter.model.config.get_text_config().model_type
    same_class = (own, *(family for family in families.values() if family.classes == own.classes))
    fits = (family for family in same_class if family.toy_config().get_text_config().model_type == decoder)
    if (family := next(fits, None)) is None:
        toy = type(own.__name__, (own,), {"toy_text": {**own.toy_text, "model_type": decoder}})
    else:
        toy = type(family.__name__, (family,), {})
    names = {cls.__name__ for cls in type(adapter.model).__mro__}
    toy.classes = tuple(name for name in own.classes if name in names)  # not in its body, which would register it
    return toy


def fault(family: type[Adapter], attention: str, prune: Prune) -> str:
    """The first question that a family's toy fails, and how. Empty if it fails none."""
    for question in (_decodes, _selects):
        try:
            with _own_settings(), warnings.catch_warnings(action="ignore"):
                difference = question(family, attention, prune)
        except Exception as error:  # an unknown release may break in any way, and that is the answer
            return f"{question.__name__.strip('_')}: {type(error).__name__}: {first_line(error)}"
        if not difference <= TOLERANCE:
            return f"{question.__name__.strip('_')}: off by {difference:.1g} of the largest value"
    return ""


@contextmanager
def _own_settings() -> Iterator[None]:
    """Run on a CPU in float32, whatever mode, precision and device the user has set. Random numbers go on after it."""
    dtype = torch.get_default_dtype()
    with (
        torch.inference_mode(False),  # its tensors have no gradient
        torch.no_grad(),
        torch.autocast("cpu", enabled=False),
        torch.device("cpu"),
        torch.random.fork_rng(devices=()),
    ):
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)


def _decodes(family: type[Adapter], attention: str, prune: Prune) -> float:
    """How far the logits of batches with unequal pictures are from the oracle's: of one with padding, and without."""
    small, large = family.toy_sample("small"), family.toy_sample("large")
    longer = large["input_ids"].shape[1] - small["input_ids"].shape[1]
    equally_long = [family.toy_sample("small", after=AFTER + longer), large]
    batches = (batch([*equally_long, family.toy_sample("small", seed=1)]), batch(equally_long))
    return max(_generated(family, attention, prune, inputs, "random")[0] for inputs in batches)


def _selects(family: type[Adapter], attention: str, prune: Prune) -> float:
    """How far the logits and the scores of one prompt are from the oracle's, by each way to compute the saliency."""
    inputs, dense, differences = family.toy_sample("large"), family(family.toy("eager")), list[float]()
    for saliency in ("autograd", "tail"):
        difference, stages = _generated(family, attention, prune, inputs, "trio", saliency=saliency)
        differences.append(difference)
        for stage in stages:
            assert stage.scores is not None
            (ours,), oracle = stage.scores, _gradient(dense, inputs, stages, stage.layer)
            seen = ~ours.isnan()
            differences.append(_difference(ours[seen], oracle[seen]))
    return max(differences)


def _generated(
    family: type[Adapter], attention: str, prune: Prune, inputs: Inputs, method: str, **options: Any
) -> tuple[float, Sequence[StageTrace]]:
    """How far the logits of each step are from the oracle's, and the stages that ran."""
    model: Any = family.toy(attention)
    dense = family(family.toy("eager"))
    with prune(model, method, **STAGES, **options) as trace:
        made = generated(model, inputs, STEPS, dense.placeholder_ids())
    stages = tuple(trace.stages)
    if not stages or any(stage.tokens_after >= stage.tokens_before for stage in stages):
        raise UnsupportedModel("nothing was dropped")
    longer = _with_text_behind(dense, inputs, made.sequences[:, -STEPS:-1])
    with _hiding(dense, longer, stages):
        expected = dense.model(**longer, use_cache=False).logits[:, -STEPS:]
    return _difference(torch.stack(made.logits, dim=1), expected), stages


def _with_text_behind(dense: Adapter, inputs: Inputs, words: Tensor) -> Inputs:
    """The inputs with new tokens of text behind the prompt. words: [B, T]."""
    prompt, new = inputs["input_ids"].shape[1], words.shape[1]
    per_token = {name: pad(inputs[name], (0, new)) for name in PER_TOKEN if name in inputs}
    per_token["input_ids"] = torch.cat([inputs["input_ids"], words], dim=1)
    per_token["attention_mask"] = pad(inputs["attention_mask"], (0, new), value=1)
    return {**inputs, **per_token, **dense.extra_inputs(per_token["input_ids"], prompt)}


def _difference(ours: Tensor, oracle: Tensor) -> float:
    """The largest difference, as a share of the oracle's largest value. A value that is no number is infinitely far."""
    largest = ((ours - oracle).abs().max() / oracle.abs().max()).item()
    return largest if largest == largest else float("inf")


# --- the oracle ------------------------------------------------------------------------------------------------------


@contextmanager
def _hiding(dense: Adapter, inputs: Inputs, stages: Sequence[StageTrace]) -> Iterator[None]:
    """Hide what each stage dropped from the layers behind it."""
    ids = inputs["input_ids"]
    visual = dense.visual_tokens(ids)

    def hide(dropped: Tensor, _layer: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        mask = kwargs["attention_mask"]
        return args, {**kwargs, "attention_mask": mask.masked_fill(dropped[:, None, None], torch.finfo(mask.dtype).min)}

    with ExitStack() as hooks:
        for index, layer in enumerate(dense.layers):
            if before := [stage for stage in stages if stage.layer <= index]:
                dropped = visual.clone()
                for sample, kept in enumerate(before[-1].kept):
                    dropped[sample, visual[sample].nonzero().squeeze(1)[kept]] = False
                hooks.enter_context(layer.register_forward_pre_hook(partial(hide, dropped), with_kwargs=True))
        yield


def _gradient(dense: Adapter, inputs: Inputs, stages: Sequence[StageTrace], boundary: int) -> Tensor:
    """[V0]: the norm of the proxy loss's gradient at each visual token of one prompt, by torch's own backward.

    boundary: of the stage. The layer behind it is the probed one.
    """
    entered: list[Tensor] = []
    losses: list[Tensor] = []

    def enter(_layer: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        entered.append(args[0].detach().requires_grad_())
        return (entered[0], *args[1:])

    def leave(_layer: nn.Module, _args: Any, output: Any) -> None:
        losses.append(proxy_loss(dense.readout(output[0] if isinstance(output, tuple) else output)[:, -4:]))

    probed = dense.layers[boundary]
    earlier = [stage for stage in stages if stage.layer < boundary]
    with (
        torch.enable_grad(),
        _hiding(dense, inputs, earlier),
        probed.register_forward_pre_hook(enter),
        probed.register_forward_hook(leave),
    ):
        dense.model(**inputs, use_cache=False)
        (slopes,) = torch.autograd.grad(losses[0], entered)
    return slopes[0].norm(dim=-1)[dense.visual_tokens(inputs["input_ids"])[0]]
