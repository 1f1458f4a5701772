"""The report of a prediction: each retention, what the prefill consists of, and what stands against it."""

from collections.abc import Iterator

from trio_profile import units
from trio_profile.kinds.predict.document import PredictionDocument
from trio_profile.report.blocks import Block, Entry, Page, Report, Sentences, Terms, tabulate
from trio_profile.text import listed

_BANNER = "Predicted from tables of operators. Nothing was measured, and nothing is said of answers."
_READING = (
    "A range reaches over the engines, and over what the tables leave open. At one end launches are hidden and a stage "
    "waits once. At the other end launches, waits, copies and what the tables leave out are added. The truth may be "
    "anywhere in it, so no middle is shown."
)
_COLUMNS = {
    "retention": lambda cell: Entry(units.percent(cell.layer_average)),
    "word": lambda cell: Entry(cell.word),
    "prefill": lambda cell: Entry(units.times_between(*cell.gain)),
    "takes": lambda cell: Entry(units.milliseconds_between(*cell.pruned_ms)),
    "selection": lambda cell: Entry(units.milliseconds_between(*cell.selection_ms)),
}
_AGAINST = {
    "prefill": lambda row: Entry(row.name),
    "measured": lambda row: Entry(units.milliseconds(row.measured_ms)),
    "predicted": lambda row: Entry(units.milliseconds_between(*row.predicted_ms)),
    "measured / predicted": lambda row: Entry(units.times_between(*row.ratio)),
}


def report(document: PredictionDocument) -> Report:
    """One page: is a trial on this GPU worth it?"""
    study, gpu = document.study, document.gpu
    caption = f"Predicted on {gpu}, bfloat16, batch {study.batch}, idle"
    blocks: list[Block] = [tabulate(caption, _COLUMNS, document.cells), Terms("The dense prefill", [*_dense(document)])]
    if document.against:
        caption = f"Measured on {document.against_device}, over predicted on {gpu}"
        blocks.append(tabulate(caption, _AGAINST, document.against))
    blocks.append(Sentences("What stands against it", [*_objections(document)], tone="doubt"))
    tokens = f"{units.exact(document.visual_tokens)} visual + {units.exact(document.text_tokens)} text tokens"
    facts = [f"{study.tp} × {gpu}", listed(document.engines), "bfloat16", f"batch {study.batch}, idle", tokens]
    page = Page("prediction", f"Is a trial on {gpu} worth it?", _READING, blocks)
    return Report(study.method, study.model, facts, [page], data=document.model_dump_json(), banner=_BANNER)


def _dense(document: PredictionDocument) -> Iterator[tuple[str, str]]:
    tower = max(part / whole for part, whole in zip(document.tower_ms, document.dense_ms, strict=True))
    low, high = ("none" if end is None else units.percent(end, 0) for end in document.break_even)
    measured, formula, guess = (units.percent(share, 0) for share in document.shares)
    yield "takes", units.milliseconds_between(*document.dense_ms)
    yield "operators", f"{measured} measured by NVIDIA, {formula} by formula, {guess} guessed"
    yield "tower", f"{units.milliseconds_between(*document.tower_ms)}, up to {units.percent(tower, 0)} of it"
    yield "cap", f"{units.times_between(*document.cap)}: the gain if no visual token entered the decoder, for free"
    yield "break-even", f"{low} to {high}: the highest retention that gains, at the worst end and at the best"


def _objections(document: PredictionDocument) -> Iterator[str]:
    """The work that the numbers leave out, and the places where the tables jump."""
    yield "No engine prunes in the middle of the decoder today. The prediction is of an engine that would."
    yield "Preprocessing, scheduling, other requests and decoding are left out."
    yield f"The launches and waits of a selection: {document.selection_source}."
    if document.cliffs:
        steps = listed(document.cliffs)
        yield f"Cliffs of the tables within 5 % of these tokens, with the factor in a layer's time: {steps}."
