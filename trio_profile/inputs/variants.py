"""The variants of TRIO that an ablation compares, and what the paper prints of them.

Source: arXiv 2602.04657, tables "Ablation on K_pos", "Ablation on NMS and τ" and the table of nearby pruning layers.
The groups `probe` and `saliency` are ours.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

from trio_profile import units
from trio_profile.errors import StudyError
from trio_profile.inputs import catalogue
from trio_profile.records.schema import Options, Study

K_POS = range(1, 9)
THRESHOLDS = (0.70, 0.75, 0.80, 0.85, 0.90, 0.95)
Layers = tuple[int, ...]


def variants_of(study: Study, only: Sequence[str] = ()) -> dict[str, dict[str, Options]]:
    """Return the variants of a study's TRIO, by group and by name. Each variant is the options that it changes.

    The unchanged method is one variant of each group; it changes nothing.

    only: names of groups. Empty: all groups.
    Raises StudyError if a group or the model does not exist.
    """
    from trio_core.rules.schedule import default_layers

    layers = study.layers or default_layers(catalogue.num_layers(study.model))
    unchanged = catalogue.methods()["trio"].options | study.options | {"layers": layers}
    groups: dict[str, dict[str, Options]] = {
        "k_pos": {str(k_pos): {"k_pos": k_pos} for k_pos in K_POS},
        "threshold": {
            **{units.threshold(tau): {"threshold": tau, "nms": True} for tau in THRESHOLDS},
            "none": {"nms": False},
        },
        "layers": {", ".join(map(str, nearby)): {"layers": nearby} for nearby in nearby_layers(layers)},
        "probe": {
            f"{probe}, {rows}": {"probe": probe, "rows": rows}
            for probe, rows in product(("next", "current"), ("last", "shifted"))
        },
        "saliency": {saliency: {"saliency": saliency} for saliency in ("tail", "autograd")},
    }
    if unknown := [name for name in only if name not in groups]:
        raise StudyError(f"ablation {unknown[0]!r}: choose {', '.join(groups)}")
    return {name: _changes(variants, unchanged) for name, variants in groups.items() if not only or name in only}


def nearby_layers(layers: Layers) -> list[Layers]:
    """Return the pruning layers and their neighbours: all but the first moved by one layer, then each one alone.

    The paper's (1, 10, 15) has the neighbours (1, 9, 14) and (1, 11, 16). Layer numbers start at 1.

    layers: the pruning layers, ascending.
    """
    alone = [
        [step * (stage == moved) for stage in range(len(layers))] for moved in range(len(layers)) for step in (-1, 1)
    ]
    together = [[0] + [step] * (len(layers) - 1) for step in (-1, 1)]
    neighbours = [tuple(layer + step for layer, step in zip(layers, steps, strict=True)) for steps in together + alone]
    return list(dict.fromkeys([layers, *(nearby for nearby in neighbours if nearby[0] > 0)]))


def _changes(variants: dict[str, Options], unchanged: dict[str, Any]) -> dict[str, Options]:
    """Return the options in which each variant differs from the unchanged method, which is added if it is missing.

    unchanged: all options of the unchanged method.
    """
    changes: dict[str, Options] = {
        name: {option: value for option, value in options.items() if value != unchanged[option]}
        for name, options in variants.items()
    }
    return changes if {} in changes.values() else {"unchanged": {}, **changes}
