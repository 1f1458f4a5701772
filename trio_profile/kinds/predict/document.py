"""The study and the document of `trio-profile predict`: ranges of milliseconds that nothing measured."""

from typing import Literal

from trio_profile import units
from trio_profile.judge.claims import of_predictions
from trio_profile.records.conclusion import Conclusion
from trio_profile.records.documents import Document
from trio_profile.records.estimate import Interval
from trio_profile.records.facts import models
from trio_profile.records.option import INPUT, METHOD, MODEL, option
from trio_profile.records.record import Record
from trio_profile.records.study import Share

USUAL = (0.11, 0.22, 0.33, 0.66, 0.88)


class PredictStudy(Record):
    """A prefill to predict. The help of its option says what a field means."""

    verb: Literal["predict"] = "predict"
    model: str = option(
        "llava-1.5-7b", MODEL, "A model whose operators are known, a checkpoint or a hub repository.", basic=True
    )
    method: str = option("trio", METHOD, "A method that declares the operators of its selection.", basic=True)
    retentions: tuple[Share, ...] = option(
        USUAL, METHOD, "Comma list of shares to keep.", flags=("--retention",), form="list", basic=True
    )
    gpu: str = option("", MODEL, "The GPU, such as h100.", basic=True)
    engine: str | None = option(None, MODEL, "vllm, sglang or trtllm.", default_help="the range of all", basic=True)
    tp: int = option(1, MODEL, "How many GPUs share the decoder.", ge=1, le=64)
    batch: int = option(1, INPUT, "Samples in a batch.", ge=1, le=4096)
    visual_tokens: int | None = option(None, INPUT, "Visual tokens of one sample.", default_help="the picture's", ge=1)
    text_tokens: int = option(60, INPUT, "Text tokens of one sample.", ge=0, le=100_000)
    against: str | None = option(None, INPUT, "A sweep whose times are printed over the predicted ones.", form="path")


class PredictedCell(Record):
    """One retention. Intervals are the range over the engines and over what the tables leave open.

    retention: as asked. layer_average: as the schedule reaches it. layers, budgets: of the schedule.
    selection_ms: all selections. pruned_ms: the prefill with them. gain: dense over pruned.
    word: `try`, `not decided` or `do not`.
    """

    retention: float
    layer_average: float
    layers: tuple[int, ...]
    budgets: tuple[int, ...]
    selection_ms: Interval
    pruned_ms: Interval
    gain: Interval
    word: str


class Against(Record):
    """A measured prefill beside its prediction. ratio: measured over predicted, at the least and at the most."""

    name: str
    measured_ms: float
    predicted_ms: Interval
    ratio: Interval


class PredictionDocument(Document):
    """The output of `trio-profile predict --json`. It is no measurement: gates, comparisons and charts refuse it.

    gpu, engines: the tables, with the version of each engine.
    dense_ms, tower_ms: the dense prefill, and the vision tower in it.
    cap: the gain if no visual token entered the decoder and the selection were free.
    selection_source: where the launches and the waits of a selection come from.
    break_even: the highest retention that gains, at the least and at the most; None where none does.
    shares: of the dense prefill's time, by source: measured by the maker of the tables, by formula, guessed.
    cliffs: steps of the tables near the token counts of this prefill, in words.
    against, against_device: a measured study, if one was named.
    """

    record: Literal["prediction"] = "prediction"
    study: PredictStudy
    gpu: str
    engines: tuple[str, ...]
    visual_tokens: int
    text_tokens: int
    dense_ms: Interval
    tower_ms: Interval
    cap: Interval
    shares: tuple[float, float, float]
    selection_source: str
    cells: tuple[PredictedCell, ...]
    break_even: tuple[float | None, float | None]
    cliffs: tuple[str, ...] = ()
    against: tuple[Against, ...] = ()
    against_device: str = ""
    report: str | None = None


def conclude(document: PredictionDocument) -> Conclusion:
    """Return whether pruning is worth a trial on this GPU."""
    from trio_profile.records.decoders import known  # help imports no yaml

    study = document.study
    gains = {f"{study.method} at {units.percent(cell.layer_average)}": cell.gain for cell in document.cells}
    retentions = ",".join(units.plain(retention) for retention in study.retentions)
    command = f"trio-profile sweep --model {study.model} --method {study.method} --retention {retentions} --device cuda"
    has_sizes_alone = study.model in known() and study.model not in models()
    return of_predictions(gains, "" if has_sizes_alone else command)
