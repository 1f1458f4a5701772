"""An ablation on tasks: an evaluation with a row for each variant of TRIO."""

from collections.abc import Mapping
from typing import Any

from trio_profile.errors import StudyError
from trio_profile.inputs.variants import variants_of
from trio_profile.kinds.evaluation.suites import METHODS
from trio_profile.study.asked import Draft, draft, fields_of
from trio_profile.study.kind import Kind
from trio_profile.study.kinds import find


def on_tasks(kind: Kind, chosen: Mapping[str, Any], *, trust: bool) -> Draft | None:
    """Return the study of `ablate` with tasks or a suite, which is an evaluation; None without them.

    Of a suite it takes the benchmarks alone. Raises as `draft` does.
    """
    if not (chosen.get("tasks") or chosen.get("suite")):
        return None
    taken = fields_of(find("eval"))
    for name, value in chosen.items():
        if name not in taken:
            raise StudyError(f"{name} = {value!r}: ablate on tasks has no such field; leave it out")
    alone = {"methods": METHODS, "retentions": kind.defaults["retentions"]}
    made = draft("eval", {**alone, **chosen, "verb": "eval"}, trust=trust)
    if any(made.study.ablations.values()):
        return made
    variants = variants_of(made.study, tuple(made.study.ablations))
    return made._replace(study=made.study.model_copy(update={"ablations": variants}))
