"""The report of a prediction: each retention, what the prefill consists of, and what stands against it."""

from collections.abc import Iterator

from trio_profile import units
from trio_profile.kinds.predict.document import Against, PredictedCell, PredictionDocument
from trio_profile.report.blocks import Block, Entry, Page, Report, Sentences, Terms, tabulate
from trio_profile.report.page import fields_of
from trio_profile.text import listed

BANNER = "Predicted from tables of operators. Nothing was measured, and nothing is said of answers."


def report(document: PredictionDocument) -> Report:
    """One page: what pruning would give on this GPU."""
    study = document.study
    engines = [f"{table.engine} {table.version}" for table in document.engines]
    facts = [document.gpu, listed(engines), "bfloat16", f"batch {study.batch}, idle"]
    if study.tp > 1:
        facts.append(f"{study.tp} GPUs")
    tokens = f"{units.exact(document.visual_tokens)} visual + {units.exact(document.text_tokens)} text tokens"
    pages = [
        prediction_page(document),
        Page(
            "study",
            "What was asked",
            "The sizes of the model stand in its config.json, or in sizes.yaml.",
            [Terms("Asked", fields_of(study), detail=True)],
            folded="Show what was asked",
        ),
    ]
    facts.append(tokens)
    return Report(study.method, study.model, facts, pages, data=document.model_dump_json(), banner=BANNER)


def prediction_page(document: PredictionDocument) -> Page:
    """Is a trial on this GPU worth it?"""
    cells = tabulate(
        f"Predicted on {document.gpu}",
        {
            "retention": lambda cell: Entry(units.percent(cell.layer_average)),
            "word": lambda cell: Entry(cell.word),
            "prefill": lambda cell: Entry(units.times_between(*cell.gain)),
            "takes": lambda cell: Entry(units.milliseconds_between(*cell.pruned_ms)),
            "selection": lambda cell: Entry(units.milliseconds_between(*cell.selection_ms)),
            "tokens kept": _kept,
        },
        document.cells,
        first=5,
    )
    blocks: list[Block] = [cells, Terms("The dense prefill", [*_dense(document)])]
    if document.against:
        blocks.append(_against(document))
    blocks.append(Sentences("What stands against it", [*_objections(document)], tone="doubt"))
    return Page(
        "prediction",
        f"Is a trial on {document.gpu} worth it?",
        "A range reaches over the engines, and over what the tables leave open. Its lower end hides every launch behind "
        "the operators and waits once; its upper end adds launches, waits, copies and what the tables leave out. The "
        "truth may be anywhere in it, so no middle is shown.",
        blocks,
    )


def _kept(cell: PredictedCell) -> Entry:
    stages = zip(cell.layers, cell.budgets, strict=True)
    return Entry(", ".join(f"{units.exact(budget)} after layer {layer}" for layer, budget in stages))


def _dense(document: PredictionDocument) -> Iterator[tuple[str, str]]:
    shares = document.shares
    tower = [part / whole for part, whole in zip(document.tower_ms, document.dense_ms, strict=True)]
    yield "takes", units.milliseconds_between(*document.dense_ms)
    yield "tower", f"{units.milliseconds_between(*document.tower_ms)}, about {units.percent(max(tower), 0)} of it"
    yield "cap", f"{units.times_between(*document.cap)}: the gain if no visual token entered the decoder, for free"
    yield "break-even", _break_even(document)
    yield (
        "its operators",
        f"{units.percent(shares.measured, 0)} measured by NVIDIA, {units.percent(shares.formula, 0)} by formula, "
        f"{units.percent(shares.guess, 0)} guessed",
    )


def _break_even(document: PredictionDocument) -> str:
    """The highest retentions that gain, in words."""
    low, high = document.break_even
    if high is None:
        return "none: no retention gains at any end of the range"
    lower = "none" if low is None else units.percent(low, 0)
    return f"{lower} to {units.percent(high, 0)}: a higher retention gains at no end of the range"


def _against(document: PredictionDocument) -> Block:
    """Measured over predicted."""
    return tabulate(
        f"Measured on {document.against_device}, over predicted on {document.gpu}",
        {
            "prefill": lambda row: Entry(row.name),
            "measured": lambda row: Entry(units.milliseconds(row.measured_ms)),
            "predicted": lambda row: Entry(units.milliseconds_between(*row.predicted_ms)),
            "measured / predicted": _ratio,
        },
        document.against,
    )


def _ratio(row: Against) -> Entry:
    return Entry(units.times_between(*row.ratio))


def _objections(document: PredictionDocument) -> Iterator[str]:
    """What the numbers leave out, and where the tables jump."""
    yield "No engine prunes in the middle of the decoder today. The prediction is of an engine that would."
    yield "Preprocessing, scheduling, other requests and decoding are left out."
    yield f"The launches and waits of a selection: {document.selection_source}."
    if document.cliffs:
        steps = [
            f"{cliff.engine} {units.exact(cliff.fewer)} to {units.exact(cliff.more)} ({units.times(cliff.factor)})"
            for cliff in document.cliffs
        ]
        yield f"Cliffs of the tables within 5 % of these tokens, and how much longer a layer takes: {listed(steps)}."
