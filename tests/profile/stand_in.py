"""A kind of study for the tests of what all kinds share: it measures nothing, and no folder of `kinds` is needed."""

from trio_profile.inputs.digest import input_digests
from trio_profile.inputs.environment import collect
from trio_profile.inputs.host import session
from trio_profile.records.documents import StudyDocument
from trio_profile.records.record import Record
from trio_profile.report.blocks import Page, Report, Sentences
from trio_profile.study.kind import Kind


class Part(Record):
    weights: int


class Weighed(StudyDocument):
    parts: tuple[Part, ...] = (Part(weights=3), Part(weights=4))
    report: str | None = None


KIND = Kind(
    name="weigh",
    group="Explain",
    summary="Weigh a model.",
    options=("model", "device", "seed"),
    runner=f"{__name__}:run",
    document=f"{__name__}:Weighed",
    report=f"{__name__}:report",
    file="weighed.json",
    rows="parts",
    defaults={"device": "cpu"},
)


def run(study, directory=None, watch=None) -> Weighed:
    """A document of this machine."""
    opened = session(collect(), input_digests(study))
    return Weighed(environment=opened.environment, study=study, sessions=(opened,))


def report(document: Weighed) -> Report:
    """A page with one sentence."""
    said = f"It weighs {sum(part.weights for part in document.parts)}."
    return Report("weights", document.study.model, [], [Page("weights", "Weights", "", [Sentences("", [said])])])
