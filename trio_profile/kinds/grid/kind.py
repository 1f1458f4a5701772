"""The kinds `sweep`, `compare` and `ablate`, and the functions that complete their studies."""

from typing import Any

from trio_profile.errors import StudyError
from trio_profile.records.schema import Study
from trio_profile.study.kind import CELLS, INPUT, MODEL, Kind

OF_A_GRID: dict[str, Any] = {
    "runner": "trio_profile.kinds.grid.run:run",
    "rows": "trio_profile.kinds.grid.document:cell_rows",
    "pairs": "trio_profile.kinds.grid.document:pair_rows",
    "paper_table": "trio_profile.kinds.grid.page:all_cells",
}
"""The functions that all three kinds share."""

CONTROLS = ("random", "downsample")
"""The methods of every comparison: a random selection, and a smaller picture."""
DRAWN = 8
"""The number of random pictures for a model without questions."""
KINDS = (
    Kind(
        name="sweep",
        group="Measure",
        place=1,
        summary="Sweep retentions: speed-up, work, cache and break-even. The main job.\n\n"
        "All retentions and the dense model are timed in turn, in random rounds. The same command goes on where it "
        "was.",
        options=(*MODEL, "methods", "retentions", "gamma", *INPUT, *CELLS),
        document="trio_profile.kinds.grid.sweep:summarise",
        report="trio_profile.kinds.grid.sweep:report",
        out="runs/sweep",
        **OF_A_GRID,
    ),
    Kind(
        name="compare",
        group="Measure",
        place=2,
        summary="Compare methods at the same retentions: time, work, cache, and agreement with the dense model.\n\n"
        "The controls `random` and `downsample` are always included. A method that cannot run is listed with its "
        "reason.",
        options=(*MODEL, "methods", "retentions", *INPUT, *CELLS),
        document="trio_profile.kinds.grid.compare:compare",
        report="trio_profile.kinds.grid.compare:report",
        defaults={"methods": (), "retentions": (0.333,)},
        empty_words={"methods": "all methods"},
        prepare="trio_profile.kinds.grid.kind:prepare_compare",
        keep_refusals=True,
        out="runs/compare",
        **OF_A_GRID,
    ),
    Kind(
        name="ablate",
        group="Paper",
        place=1,
        summary="Change one option of TRIO at a time, and compare each variant with the default.\n\n"
        "A variant that cannot run is listed with its reason. Finished cells are not measured again. With --tasks "
        "or --suite it is an evaluation: lmms-eval scores the answers of each variant.",
        options=(
            *(*MODEL, "ablations", "retentions", *INPUT, *CELLS),
            *("suite", "tasks", "task_path", "limit"),
        ),
        document="trio_profile.kinds.grid.ablate:ablate",
        report="trio_profile.kinds.grid.ablate:report",
        defaults={"retentions": (0.111,)},
        prepare="trio_profile.kinds.grid.kind:prepare_ablate",
        keep_refusals=True,
        several=("retentions",),
        out="runs/ablate",
        **OF_A_GRID,
    ),
)


def prepare_compare(study: Study) -> Study:
    """Return the study with its methods (all of them if it names none), with the controls, and with its inputs."""
    from trio_profile.inputs import catalogue

    named = study.methods or tuple(catalogue.method_names())
    return with_inputs(study.model_copy(update={"methods": tuple(dict.fromkeys((*named, *CONTROLS)))}))


def with_inputs(study: Study) -> Study:
    """Return the study, with random pictures if it has no questions. Raises StudyError if it has no input at all."""
    from trio_profile.inputs.catalogue import has_own_questions

    if study.fidelity_inputs == 0:
        raise StudyError(f"--asked 0: {study.verb} compares answers with the dense model and needs at least 1")
    if study.fidelity_inputs is None and study.questions is None and not has_own_questions(study):
        return study.model_copy(update={"fidelity_inputs": DRAWN})
    return study


def prepare_ablate(study: Study) -> Study:
    """Return the study with its variants. `ablations` may name some groups; otherwise it gets all groups.

    Raises StudyError if a group or the model does not exist, or if a field is set that only tasks need.
    """
    from trio_core.rules.schedule import default_layers
    from trio_profile.inputs.catalogue import num_layers
    from trio_profile.inputs.variants import variants_of

    for name, value in (("task_path", study.task_path), ("limit", study.limit)):
        if value is not None:
            raise StudyError(
                f"{name} = {value!r}: no task is named; give --tasks pope,gqa or --suite trio:llava-1.5-7b, or omit it"
            )
    if any(study.ablations.values()):
        return with_inputs(study)
    # With named layers all variants have the same stages: `trio` leaves out none.
    study = study.model_copy(update={"layers": study.layers or default_layers(num_layers(study.model))})
    variants = variants_of(study, tuple(study.ablations))
    return with_inputs(study.model_copy(update={"ablations": variants}))
