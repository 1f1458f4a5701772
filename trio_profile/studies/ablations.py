"""The paper's ablations of TRIO: which options are tried, one group at a time, all else as it stands.

Source: arXiv 2602.04657, tables "Ablation on K_pos", "Ablation on NMS and τ" and "Sensitivity of nearby pruning-layer
choices". The two readings of probe and rows and the two ways to compute the saliency are ours.
"""

from collections.abc import Sequence
from dataclasses import fields
from itertools import product
from typing import Any, get_args

from trio_core.methods.trio import Trio
from trio_core.methods.view import Probe, Rows
from trio_core.rules.schedule import Layers, default_layers
from trio_profile.errors import StudyError
from trio_profile.inputs.models import num_layers
from trio_profile.records.schema import Options, Study

K_POS = range(1, 9)
THRESHOLDS = (0.70, 0.75, 0.80, 0.85, 0.90, 0.95)


def of(study: Study, only: Sequence[str] = ()) -> dict[str, dict[str, Options]]:
    """The variants of a study's TRIO, by group and by name, each as what it changes; nothing where that is how it is.

    only: names of groups; none takes all. Raises StudyError for a name that is no group, or a model that is not there.
    """
    layers = study.layers or default_layers(num_layers(study.model))
    stands: dict[str, Any] = {field.name: field.default for field in fields(Trio)}
    stands |= study.options | {"layers": layers}
    groups: dict[str, dict[str, Options]] = {
        "k_pos": {str(k_pos): {"k_pos": k_pos} for k_pos in K_POS},
        "threshold": {**{f"{tau:.2f}": {"threshold": tau, "nms": True} for tau in THRESHOLDS}, "none": {"nms": False}},
        "layers": {", ".join(map(str, some)): {"layers": some} for some in nearby(layers)},
        "probe": {
            f"{probe}, {rows}": {"probe": probe, "rows": rows}
            for probe, rows in product(get_args(Probe), get_args(Rows))
        },
        "saliency": {way: {"saliency": way} for way in ("tail", "autograd")},
    }
    if unknown := [name for name in only if name not in groups]:
        raise StudyError(f"ablation {unknown[0]!r}: choose {', '.join(groups)}")
    return {name: _changes(variants, stands) for name, variants in groups.items() if not only or name in only}


def nearby(layers: Layers) -> list[Layers]:
    """Pruning layers, and those beside them: the paper's, all but the first a layer earlier or later; then each alone.

    The paper's (1, 10, 15) has (1, 9, 14) and (1, 11, 16). There is no layer before the first.
    """
    alone = [
        [step * (stage == moved) for stage in range(len(layers))] for moved in range(len(layers)) for step in (-1, 1)
    ]
    together = [[0] + [step] * (len(layers) - 1) for step in (-1, 1)]
    found = [tuple(layer + step for layer, step in zip(layers, steps, strict=True)) for steps in together + alone]
    return list(dict.fromkeys([layers, *(some for some in found if some[0] > 0)]))


def _changes(variants: dict[str, Options], stands: dict[str, Any]) -> dict[str, Options]:
    """Each variant less what it shares with the method as it stands, which is always one of them."""
    changes: dict[str, Options] = {
        name: {option: value for option, value in options.items() if value != stands[option]}
        for name, options in variants.items()
    }
    return changes if {} in changes.values() else {"as it stands": {}, **changes}
