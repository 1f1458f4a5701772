"""The kinds that compare methods: `compare`, and `ablate`, which changes one option of TRIO at a time."""

from trio_profile.errors import StudyError
from trio_profile.inputs import catalogue
from trio_profile.inputs.variants import variants_of
from trio_profile.records.schema import Study

CONTROLS = ("random", "downsample")
"""The methods of every comparison: a random selection, and a smaller picture."""
DRAWN = 8
"""The number of random pictures for a model without questions."""


def prepare_compare(study: Study) -> Study:
    """Return the study with its methods (all of them if it names none), with the controls, and with its inputs."""
    named = study.methods or tuple(catalogue.method_names())
    return with_inputs(study.model_copy(update={"methods": tuple(dict.fromkeys((*named, *CONTROLS)))}))


def with_inputs(study: Study) -> Study:
    """Return the study, with random pictures if it has no questions. Raises StudyError if it has no input at all."""
    if study.fidelity_inputs == 0:
        raise StudyError(f"--asked 0: {study.verb} compares answers with the dense model and needs at least 1")
    if study.fidelity_inputs is None and study.questions is None and not catalogue.has_own_questions(study):
        return study.model_copy(update={"fidelity_inputs": DRAWN})
    return study


def prepare_ablate(study: Study) -> Study:
    """Return the study with its variants. `ablations` may name some groups; otherwise it gets all groups.

    Raises StudyError if a group or the model does not exist, or if a field is set that only tasks need.
    """
    for name, value in (("task_path", study.task_path), ("limit", study.limit)):
        if value is not None:
            raise StudyError(
                f"{name} = {value!r}: no task is named; give --tasks pope,gqa or --suite trio:llava-1.5-7b, or omit it"
            )
    if any(study.ablations.values()):
        return with_inputs(study)
    variants = variants_of(study, tuple(study.ablations))
    return with_inputs(study.model_copy(update={"ablations": variants}))
