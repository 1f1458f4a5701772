"""trio_profile measures whether pruning visual tokens makes a model faster, and at what loss of accuracy.

Each function returns the document that the command line prints with `--json`:

    import trio_profile
    document = trio_profile.sweep(retentions=(0.11, 0.33), out="runs/mine")
    document = trio_profile.read("runs/mine")
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trio_profile.kinds.audit.document import AuditDocument
    from trio_profile.kinds.evaluation.document import Evaluation
    from trio_profile.kinds.flops.document import FlopsDocument
    from trio_profile.kinds.grid.ablate import Ablation
    from trio_profile.kinds.grid.compare import Comparison
    from trio_profile.kinds.grid.sweep import SweepDocument
    from trio_profile.kinds.layers.document import LayersDocument
    from trio_profile.kinds.predict.document import PredictionDocument
    from trio_profile.kinds.servers.document import EndpointsDocument

__all__ = ["ablate", "audit_paper", "compare", "endpoints", "evaluate", "flops", "layers", "predict"]
__all__ += ["read", "run", "sweep"]


def sweep(out: str | Path | None = None, **fields: Any) -> "SweepDocument":
    """Measure a method at several retentions: times, work, memory and break-even.

    out: directory of the study. None: `runs/sweep`. Cells that are finished there are not measured again.
    fields: fields of `trio_profile.records.study.Study`.
    Raises ProfileError or TrioError, in one line, if something cannot be measured.
    """
    return run("sweep", out, **fields)


def compare(out: str | Path | None = None, **fields: Any) -> "Comparison":
    """Compare several methods at the same retentions.

    out: directory of the study. None: `runs/compare`.
    The other arguments and the errors are those of `sweep`.
    """
    return run("compare", out, **fields)


def ablate(out: str | Path | None = None, **fields: Any) -> "Ablation":
    """Measure TRIO with one option changed at a time.

    out: directory of the study. None: `runs/ablate`.
    The other arguments and the errors are those of `sweep`.
    """
    return run("ablate", out, **fields)


def evaluate(out: str | Path | None = None, **fields: Any) -> "Evaluation":
    """Score several methods and the dense model on tasks of lmms-eval.

    out: directory of the study. None: nothing is written.
    The other arguments and the errors are those of `sweep`.
    """
    return run("eval", out, **fields)


def endpoints(out: str | Path | None = None, **fields: Any) -> "EndpointsDocument":
    """Compare a dense server with a pruned one under load.

    out: directory of the study. None: `runs/endpoints`. Segments that are finished there are not measured again.
    fields: fields of `trio_profile.kinds.servers.study.EndpointStudy`.
    Raises ProfileError, in one line, if something cannot be measured.
    """
    return run("endpoints", out, **fields)


def flops(out: str | Path | None = None, **fields: Any) -> "FlopsDocument":
    """Explain the difference between the claimed work and the counted work of one prefill.

    out: directory of the study. None: nothing is written.
    The other arguments and the errors are those of `sweep`.
    """
    return run("flops", out, **fields)


def layers(out: str | Path | None = None, **fields: Any) -> "LayersDocument":
    """Time every layer and every stage of one prefill, dense and at each retention.

    out: directory of the study. None: nothing is written.
    The other arguments and the errors are those of `sweep`.
    """
    return run("layers", out, **fields)


def predict(out: str | Path | None = None, **fields: Any) -> "PredictionDocument":
    """Predict the prefill on a GPU that is not here, dense and at each retention.

    out: directory of the study. None: nothing is written.
    fields: fields of `trio_profile.kinds.predict.document.PredictStudy`; `gpu` is needed.
    Raises ProfileError or TrioError, in one line, if something cannot be predicted.
    """
    return run("predict", out, **fields)


def audit_paper(claims: str, out: str | Path | None = None, **fields: Any) -> "AuditDocument":
    """Recompute the figures that a paper prints.

    claims: a claims file, or the name of one that ships with the package, such as `trio-2026`.
    out: directory of the study. None: nothing is written.
    The other arguments and the errors are those of `sweep`.
    """
    return run("audit", out, claims=str(claims), **fields)


def read(directory: str | Path) -> Any:
    """Read the document of the study in a directory. This needs no torch and writes nothing.

    Raises StoreError if the directory holds no study, or more than one.
    """
    from trio_profile.study import running

    return running.read(Path(directory)).document


def run(kind: str, out: str | Path | None = None, *, trust: bool = False, **fields: Any) -> Any:
    """Run a study of any kind, such as `theory`, and return its document.

    kind: a name as on the command line.
    out: directory of the study. None: the default of the kind.
    trust: whether the methods `module:Class` that the file of a `suite` names may be imported.
    The other arguments and the errors are those of `sweep`.
    """
    from trio_profile import process

    process.prepare()  # before torch is imported
    from trio_profile.study import asked, running

    study = asked.make(kind, fields, trust=trust)
    return running.run(study, None if out is None else Path(out)).document
