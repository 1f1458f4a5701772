"""The schedule that costs least among those with some of a method's stages. No torch.

A stage costs a selection and saves work in the layers behind it. The same average retention can cost more with several
stages than with fewer. So this module tries them all.
"""

from collections.abc import Callable
from itertools import combinations

from trio_core.errors import RetentionError
from trio_core.rules.cost import LayerShape, PromptSizes
from trio_core.rules.schedule import Layers, Proportion, Schedule, stretched


def paying_schedule(
    *,
    retention: float,
    prompt: PromptSizes,
    num_layers: int,
    layers: Layers,
    proportion: Proportion,
    shape: LayerShape,
    selection_macs: Callable[[Schedule], int],
) -> Schedule:
    """The schedule with the least MACs, layers and selections together, whose layer average is `retention`.

    It tries every non-empty subset of `layers`. The budgets of a subset stand in the numbers that `proportion` has for
    its layers. Of equal costs the fewest stages win, then the earliest layers.

    retention: share of the visual tokens, averaged over the layers, in (0, 1].
    prompt: the token counts of one sample.
    num_layers: L, depth of the decoder.
    layers: the layers of all stages.
    proportion: the budgets of all stages stand in this proportion.
    shape: the widths of a decoder layer.
    selection_macs: returns the MACs of all selections of a schedule.

    Raises RetentionError for a retention that no subset can reach, OptionError for bad layers or a bad proportion.
    """
    numbers = stretched(len(layers), proportion)
    wanted = round(num_layers * retention * prompt.visual_tokens)
    average = round(retention * prompt.visual_tokens) + prompt.text_tokens
    price = shape.layer_macs(average + 1) - shape.layer_macs(average)

    def solve(places: tuple[int, ...]) -> Schedule:
        return Schedule.average(
            retention=retention,
            visual_tokens=prompt.visual_tokens,
            num_layers=num_layers,
            layers=[layers[place] for place in places],
            proportion=[numbers[place] for place in places],
        )

    def cost(schedule: Schedule) -> int:
        """MACs at exactly the wanted average. Whole budgets may miss it: tokens too few must not look like a gain."""
        missed = wanted - sum(schedule.tokens_by_layer)
        return prefill_macs(shape, schedule, prompt.text_tokens) + selection_macs(schedule) + missed * price

    everything = tuple(range(len(layers)))
    schedules = [solve(everything)]  # no subset reaches a lower retention
    for count in everything:
        for places in combinations(everything, count):
            if places:
                try:
                    schedules.append(solve(places))
                except RetentionError:
                    continue
    return min(schedules, key=lambda schedule: (cost(schedule), len(schedule.layers), schedule.layers))


def prefill_macs(shape: LayerShape, schedule: Schedule, text_tokens: int) -> int:
    """MACs of the decoder's layers in one prefill of one sample.

    shape: the widths of a decoder layer.
    schedule: the visual tokens of each layer.
    text_tokens: text tokens of the whole prompt, which every layer sees.
    """
    return sum(shape.layer_macs(visual + text_tokens) for visual in schedule.tokens_by_layer)
