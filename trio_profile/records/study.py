"""A Study says what to measure. It consists of cells."""

import re
from hashlib import sha256
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from trio_profile.records.option import CLAIM, INPUT, METHOD, MODEL, SAMPLING, option
from trio_profile.records.record import Record

Share = Annotated[float, Field(ge=0, le=1)]
Options = dict[str, bool | int | float | str | tuple[int, ...]]

MOST_ASPECT = 100
"""A picture's longer side is at most so many times as long as its shorter one."""
MOST_PIXELS = 100_000_000
"""The largest picture that is read, or that a model may be given. Its pixels take 300 MB."""
MOST_FRAMES = 4096
"""Of a video. All chosen frames are in memory together."""
MOST_VIDEO_PIXELS = 4 * MOST_PIXELS
"""All chosen frames of a video together: 192 of 1920 × 1080. They take 1.2 GB."""
PROCESSES = 8
"""The least number of processes before the widths of the intervals may end a study."""
MOST_PROCESSES = 64
"""A study is timed in at most so many processes."""
MOST_CELLS = 12
"""The most cells of a block, that is of one round. In a long round, its first run and its last one differ too much."""
EFFORT = ("precision", "seconds", "processes")
"""The fields that say how long is measured, not what. A finished study may go on with other values of them."""
MATCHES = ("exact", "normalised", "contains")
"""The rules by which an answer is right: `inputs/matching.py`."""
USUAL_MATCH = "normalised"
"""The rule without a choice. It leaves a question the rule of its own line."""
JUDGE_ANSWERS = ("sweep", "compare", "ablate", "endpoints")
"""The kinds of study that judge answers."""


def _require_match(name: str) -> str:
    """Raise ValueError for a text that is neither a rule nor the name of a function."""
    if name not in MATCHES and not re.fullmatch(r"[\w.]+:\w+", name):
        raise ValueError(f"choose {', '.join(MATCHES)}, or name a function of yours as module:function")
    return name


def match_option() -> Any:
    """The field of a study that names the rule of its answers."""
    return option(
        USUAL_MATCH,
        INPUT,
        "When an answer is right: exact, normalised (as VQA compares), contains, or your function as module:function.",
        metavar="RULE",
    )


def of_any_age(fields: Any) -> Any:
    """Return the fields of a kept study as this version has them.

    Fields that are GONE are passed over. A study that names no rule is older: the first one judged its answers.
    """
    if not isinstance(fields, dict):
        return fields
    rule = {} if fields.get("verb", "sweep") not in JUDGE_ANSWERS else {"match": MATCHES[0]}
    return {**rule, **{name: value for name, value in fields.items() if name not in GONE}}


GONE = ("check_cache",)
"""Fields of earlier studies that nothing reads any more."""
Match = Annotated[str, AfterValidator(_require_match)]
AnyStudy = TypeVar("AnyStudy")
Kept = Annotated[AnyStudy, BeforeValidator(of_any_age)]
"""A study as a record of any age holds it."""


class Study(Record):
    """The study of one model on one input, with some methods at some retentions.

    A study is written to `study.toml`. Fields that a kind of study does not use keep their defaults. The help of its
    option says what a field means. Beyond that:

    verb: the kind of study: one of the names in `study/kinds.py`.
    retentions: empty measures only the dense model.
    layers: counted from 1.
    image, video, prompt: without them the input is the model's own first question. A model without questions gets a
        random input.
    pixels: areas. Only for families with a dynamic resolution (Qwen).
    text_tokens: if it is given, the input is always random.
    picture: kept tokens are always recorded.
    precision: the relative half width of the interval of every prefill speed-up. Timing ends then, after eight
        processes at the earliest.
    ablations: for each group and each variant, the options that differ from the default.
    """

    verb: str = "sweep"
    model: str = option("pocket", MODEL, "A built-in model, a checkpoint directory, or a hub repository.", basic=True)
    methods: tuple[str, ...] = option(
        ("trio",),
        METHOD,
        "A method, package.module:Class, or two with a + (visionzip+trio).",
        flags=("--method",),
        form="repeat",
        several="Repeat it for several.",
        metavar="NAME",
        basic=True,
    )
    retentions: tuple[Share, ...] = option(
        (0.11, 0.22, 0.33, 0.44, 0.55, 0.66, 0.77, 0.88, 0.94, 0.99),
        METHOD,
        "Share of the visual tokens to keep, averaged over the decoder's layers.",
        flags=("--retention",),
        form="list",
        several="Several with commas.",
        metavar="SHARES",
        basic=True,
    )
    layers: tuple[int, ...] | None = option(
        None,
        METHOD,
        "Comma list of decoder layers: prune after each of them.",
        form="list",
        default_help="the paper's, for the model's depth",
        metavar="LAYERS",
    )
    options: dict[str, bool | int | float | str] = option(
        {},
        METHOD,
        "An option of the method, such as threshold=0.9, or budget_rule=final for shares of the last layer. Repeat "
        "it for several.",
        flags=("--option", "-o"),
        form="assignments",
        metavar="NAME=VALUE",
    )
    image: str | None = option(
        None, INPUT, "A picture file, for a model that has a processor.", form="path", basic=True
    )
    video: str | None = option(
        None, INPUT, "A video file, or a folder of pictures that are its frames, for a family with video.", form="path"
    )
    frames: Annotated[int, Field(ge=1, le=MOST_FRAMES)] | None = option(
        None, INPUT, "How many frames of the video, evenly chosen.", default_help="8, or all of a shorter video"
    )
    fps: Annotated[float, Field(gt=0, le=1000)] | None = option(
        None, INPUT, "How many frames of each second of the video, in place of --frames."
    )
    prompt: str | None = option(None, INPUT, "The question about the picture or video.", basic=True)
    pixels: tuple[int, int] | None = option(
        None,
        INPUT,
        "For Qwen's families: the least and the most pixels of a picture when the model sees it. Its shape stays.",
        form="list",
        default_help="as the checkpoint's processor says",
        metavar="LEAST,MOST",
    )
    text_tokens: Annotated[int, Field(ge=8, le=100_000)] | None = option(
        None,
        INPUT,
        "Text tokens beside a drawn picture.",
        default_help="60, or the question of a model that has questions",
    )
    new_tokens: int = option(8, INPUT, "Tokens generated in each run.", ge=1, le=100_000)
    batch: int = option(1, INPUT, "Samples in a batch.", ge=1, le=4096)
    device: str = option(
        "cpu", MODEL, "cpu or cuda; for flops also meta (any size, no weights).", default_help="cuda if there is one"
    )
    dtype: Literal["float32", "bfloat16", "float16"] = option(
        "float32", MODEL, "Number format.", default_help="bfloat16 on CUDA, otherwise float32"
    )
    attention: str = option("sdpa", MODEL, "Attention kernel: eager, sdpa, flash_attention_2.")
    seed: int = option(0, MODEL, "Seed of random weights, of random inputs and of the order of runs.", ge=0, lt=2**63)
    gamma: float = option(
        1.0,
        METHOD,
        "The factor γ of the paper's formula for the work of the selection, F_ov = γ · Σ f(V).",
        gt=0,
        le=1000,
    )
    precision: float = option(
        0.05,
        SAMPLING,
        "Stop earlier if the 95 % interval of every speed-up is as narrow as this: its half width, as a share. "
        "If it is given without --seconds, an hour is allowed.",
        flags=("--until",),
        metavar="SHARE",
        gt=0,
        lt=1,
    )
    seconds: float = option(
        70.0,
        SAMPLING,
        "How long the times are measured at the most: all retentions together, or each 12 cells of a larger study. "
        "A finished study goes on if it is more than before.",
        basic=True,
        gt=0,
        le=10_000_000,
    )
    processes: Annotated[int, Field(ge=1, le=MOST_PROCESSES)] | None = option(
        None,
        SAMPLING,
        "How many processes time each cell, one after another. They share the time.",
        default_help="as many as fit",
    )
    questions: str | Annotated[tuple[str, ...], Field(min_length=2)] | None = option(
        None,
        INPUT,
        "A file of questions, as JSON Lines: image or video, question, answer, kind, scene, match.",
        form="paths",
        default_help="the model's own questions if it has some",
        several="Repeat it for several benchmarks, one file for each.",
        metavar="FILE",
        basic=True,
    )
    match: Match = match_option()
    picture: bool = option(
        True,
        INPUT,
        "Keep a small copy of the picture and the scores of its tokens, for the page. --no-picture keeps a private "
        "picture out of the study and its page.",
    )
    fidelity_inputs: Annotated[int, Field(ge=0, le=10_000)] | None = option(
        None,
        INPUT,
        "How many questions both models answer, pruned and dense; the first ones of each file. sweep and compare ask "
        "more of the cells that may be chosen. Without questions: how many drawn pictures.",
        flags=("--asked",),
        default_help="all questions of a file; 24 for pocket and smol; otherwise 8 drawn pictures (sweep: none)",
    )
    ablations: dict[str, dict[str, Options]] = option(
        {},
        METHOD,
        "A group of variants: k_pos, threshold, layers, probe or saliency. Repeat it for several.",
        flags=("--only",),
        form="groups",
        default_help="all groups",
        metavar="GROUP",
        basic=True,
    )
    suite: str | None = option(
        None,
        INPUT,
        "The benchmarks, methods and retentions of a paper's table: trio:llava-1.5-7b, or a file of yours.",
        metavar="NAME[:TABLE]",
        basic=True,
    )
    tasks: tuple[str, ...] = option(
        (), INPUT, "Comma list of tasks of lmms-eval, such as pope,gqa.", form="list", basic=True
    )
    task_path: str | None = option(None, INPUT, "A directory with YAML files of your own tasks.", form="path")
    limit: Annotated[int, Field(ge=1)] | None = option(
        None, INPUT, "Ask the first N questions of each task.", default_help="all"
    )
    dense: bool = option(
        True, INPUT, "Also ask the dense model, question by question. This gives differences and speed-ups."
    )
    claimed: str | None = option(
        None, CLAIM, "A printed figure for this prefill, such as 2.98e12; its convention is found.", basic=True
    )
    convention: str | None = option(
        None, CLAIM, "Compare --claimed with this convention only, such as all-ffn3-heads-flops."
    )
    causal: Literal["dense", "half"] = option(
        "dense", CLAIM, "Count causal attention in full (dense), as operator counters do, or halved (half)."
    )
    claims: str | None = option(
        None,
        CLAIM,
        "A claims file, or the name of one that ships with the package, such as trio-2026.",
        form="argument",
        basic=True,
    )
    measured: str | None = option(
        None, CLAIM, "The directory of a sweep that measured the same settings (its --out).", form="path", basic=True
    )
    gpu: str | None = option(
        None, CLAIM, "A GPU, such as a100: of the printed times, or to predict each layer on.", basic=True
    )

    @property
    def question_files(self) -> tuple[str, ...]:
        """The files of questions."""
        if self.questions is None:
            return ()
        return (self.questions,) if isinstance(self.questions, str) else self.questions

    @property
    def asks_more(self) -> bool:
        """Whether more questions may be asked of some cells. Without --asked, a file is asked whole at once."""
        files = len(self.question_files)
        return self.verb != "ablate" and (not files or (files == 1 and self.fidelity_inputs is not None))

    @model_validator(mode="before")
    @classmethod
    def _refuse_other_runs(cls, fields: Any) -> Any:
        """Raise ValueError for an older study whose runs began behind a busy stream, or with a cold cache."""
        if isinstance(fields, dict) and (fields.get("preroll_ms") or fields.get("cold_l2")):
            raise ValueError("its runs began with preroll_ms or cold_l2, which are gone; measure it into another --out")
        return fields

    @field_validator("pixels", mode="before")
    @classmethod
    def _require_pixels_in_order(cls, value: Any) -> tuple[int, int] | None:
        match value:
            case None:
                return None
            case [int(least), int(most)] if 1 <= least <= most <= MOST_PIXELS:
                return least, most
        raise ValueError(f"give two whole numbers in order, such as 3136,1003520, from 1 to {MOST_PIXELS}")

    def cells(self) -> list["Cell"]:
        """The cells in order: each method at each retention, lowest first, with the default and then each variant."""
        variants: list[Options] = [{}]
        for options in (options for group in self.ablations.values() for options in group.values()):
            if options not in variants:
                variants.append(options)
        return [
            Cell(method=method, retention=retention, options=options)
            for method in self.methods
            for retention in sorted(set(self.retentions))
            for options in variants
        ]

    def blocks(self) -> dict[str, list["Cell"]]:
        """The cells of each block, by the block's name. All cells of a block are in the same rounds.

        Cells that are compared with each other stay together: those of one retention and one ablation, if they are few.
        """
        alike: dict[tuple[float, int], list[Cell]] = {}
        for cell in self.cells():
            alike.setdefault((cell.retention, self._ablation(cell)), []).append(cell)
        blocks: list[list[Cell]] = []
        for _, cells in sorted(alike.items()):
            if blocks and len(blocks[-1]) + len(cells) <= MOST_CELLS:
                blocks[-1] += cells
                continue
            parts = -(-len(cells) // MOST_CELLS)
            blocks += [cells[part::parts] for part in range(parts)]
        return {f"cells-{number}": cells for number, cells in enumerate(blocks, start=1)}

    def _ablation(self, cell: "Cell") -> int:
        """The number of the ablation that a cell belongs to; -1 for none."""
        return next((i for i, group in enumerate(self.ablations.values()) if cell.options in group.values()), -1)

    def identity(self) -> dict[str, Any]:
        """The fields that say what is measured. Two studies with the same ones can be measured into one directory."""
        return self.model_dump(exclude=set(EFFORT))


class Cell(Record):
    """One point of a study. Two cells with the same content are the same work.

    method: name of the method.
    retention: share of the visual tokens to keep, averaged over the decoder's layers.
    options: the method's options that differ from the study's.
    """

    method: str
    retention: Share
    options: Options = Field(default_factory=dict)

    @property
    def id(self) -> str:
        """The first twelve hexadecimal digits of the content's hash."""
        return sha256(self.model_dump_json(exclude_defaults=True).encode()).hexdigest()[:12]

    @property
    def variant(self) -> str:
        """The method and the options that differ: `trio`, `trio (k_pos = 1)`."""
        changed = ", ".join(f"{name} = {value}" for name, value in self.options.items())
        return f"{self.method} ({changed})" if changed else self.method
