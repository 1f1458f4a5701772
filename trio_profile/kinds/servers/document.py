"""The document of `trio-profile endpoints`: what each arm does under each load, the gains, and the break-evens."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, create_model

from trio_profile.judge.doubts import Doubt
from trio_profile.kinds.servers.quantities import QUANTITIES
from trio_profile.kinds.servers.requests import ServerFacts
from trio_profile.kinds.servers.study import EndpointStudy, Loop
from trio_profile.records.documents import Document
from trio_profile.records.estimate import Accuracy, Difference, Gain
from trio_profile.records.record import AboveZero, Record
from trio_profile.records.schema import Environment
from trio_profile.records.study import Kept

Status = Literal["crossing", "always", "never", "inconclusive"]


class _Counts(Record):
    requests: int
    errors: int


_VALUES: Any = {name: (quantity.kind | None, None) for name, quantity in QUANTITIES.items()}
"""A field for each quantity."""


class ArmAtLoad(create_model("Quantities", __base__=_Counts, **_VALUES)):
    """One arm under one load. A value is None if too few requests had it.

    requests, errors: measured requests, and those of them that failed.
    throughput: answered requests per second.
    goodput: answered requests per second whose first token came within the limit; None without a limit.
    ttft_*_ms: the 50th, 95th and 99th percentile of the time to the first token.
    tpot_ms, total_ms: medians of the time of each further token, and of the whole answer.
    prompt_tokens, output_tokens: means, as the server reports them.
    """

    prompt_tokens: float | None = None
    output_tokens: float | None = None


class AtLoad(Record):
    """Both arms under one load.

    rounds: the number of pairs.
    gains: by quantity, how much better pruning is; a quantity without a value in two rounds is left out.
    """

    loop: Loop
    load: AboveZero
    rounds: int
    dense: ArmAtLoad
    pruned: ArmAtLoad
    gains: dict[str, Gain]


class ServedAnswers(Record):
    """The right answers of both servers to the same questions.

    difference: pruned minus dense, paired by question.
    chance: share of right answers of who always gives the most frequent known answer; None in older studies.
    """

    dense: Accuracy
    pruned: Accuracy
    difference: Difference
    chance: float | None = None


class LoadBreakEven(Record):
    """The load at which pruning stops paying in one quantity, or begins to.

    status: `crossing` if the fitted line crosses 1, at `load`; `always` if pruning is better along the fitted
        line, by more than the noise; `never` if it is worse along it; `inconclusive` if the noise allows more than one
        of these, or if a load contradicts the fit. The interval of a single load may still contain 1.
    pays: on which side of the crossing pruning is better.
    load: of the crossing, in requests under way (closed loop) or requests per second (open loop).
    ci95: its interval, limited to the loads that were measured. An inconclusive result has it too: there it says where
        a crossing may lie, if there is one. None if a load contradicts the fit.
    measured: the lowest and the highest load.
    against: loads whose own interval lies on the other side of 1 than the fit. There the gain crosses 1 more than once,
        so no single load is the break-even.
    """

    quantity: str
    loop: Loop
    status: Status
    pays: Literal["below", "above"] = "below"
    load: AboveZero | None = None
    ci95: tuple[AboveZero, AboveZero] | None = None
    measured: tuple[AboveZero, AboveZero] | None = None
    against: tuple[AboveZero, ...] = ()


class EndpointsDocument(Document):
    """The document of `trio-profile endpoints --json`. Fields that only an earlier version wrote are ignored.

    environment: the machine of the client.
    study: what was asked.
    model: the model that the servers were asked for.
    servers: what each server says of itself, session by session.
    retention: share of a picture's tokens that stay in the prompt, as the servers report it for the picture that opened
        the last session; None if they do not report it, or if none is missing.
    pairs_left: pairs of segments that are not measured yet.
    loads: both arms under each load.
    break_even: by loop and quantity; empty if a server failed.
    answers: the right answers of both servers; None if no questions were asked.
    doubts: reasons not to trust the numbers.
    """

    model_config = ConfigDict(extra="ignore")

    environment: Environment
    study: Kept[EndpointStudy]
    model: str
    servers: tuple[ServerFacts, ...]
    retention: float | None = None
    pairs_left: int = 0
    loads: Annotated[tuple[AtLoad, ...], Field(min_length=1)]
    break_even: tuple[LoadBreakEven, ...]
    answers: ServedAnswers | None = None
    doubts: tuple[Doubt, ...] = ()
    report: str | None = None


class EndpointsPreview(Document):
    """The document of `endpoints --dry-run`. Nothing was sent.

    segments: the number of segments.
    requests: the most requests that they send.
    questions: the questions that each server answers before.
    seconds: the longest time that they take, apart from late answers and from making the pictures.
    """

    environment: Environment
    study: EndpointStudy
    segments: int
    requests: int
    questions: int = 0
    seconds: float
