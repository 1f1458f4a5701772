"""A Study says what to measure. It consists of cells."""

from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from trio_profile.records.record import Record

Share = Annotated[float, Field(ge=0, le=1)]
Options = dict[str, bool | int | float | str | tuple[int, ...]]

MOST_ASPECT = 100
"""A picture's longer side is at most so many times as long as its shorter one."""
MOST_PIXELS = 100_000_000
"""The largest picture that is read, or that a model may be given. Its pixels take 300 MB."""
PROCESSES = 8
"""The least number of processes before the widths of the intervals may end a study, and the default of workers."""
MOST_PROCESSES = 64
"""A study is timed in at most so many processes."""
MOST_CELLS = 12
"""The most cells of a block, that is of one round. In a long round, its first run and its last one differ too much."""
EFFORT = ("precision", "seconds", "processes")
"""The fields that say how long is measured, not what. A finished study may go on with other values of them."""


class Study(Record):
    """What to measure: one model on one input, with some methods at some retentions.

    A study is written to `study.toml`. Fields that a kind of study does not use keep their defaults.

    verb: the kind of study: one of the names in `studies/kinds.py`.
    model: a built-in model, a checkpoint directory, or a hub repository.
    methods: names of methods, or `package.module:Class`. A `+` combines two of them: `visionzip+trio`.
    retentions: the shares of the visual tokens to keep, averaged over the decoder's layers. Empty: only the
        dense model.
    layers: prune after these decoder layers, counted from 1. None: the paper's layers, scaled to the model's depth.
    options: further options of the methods.

    image, prompt: a picture file and a question, for models with a processor. Without them the input is the model's own
        first question. A model without questions gets a random input.
    pixels: the least and the most pixels that a picture may have when the model sees it, as areas. Only for families
        with a dynamic resolution (Qwen). None: as the checkpoint's processor says.
    text_tokens: length of the random input's prompt. If it is given, the input is always random. None: 60.
    new_tokens: tokens generated in each run.
    batch: samples in a batch.
    questions: a file of questions about pictures (docs/how-to/questions.md). Kind `theory` takes several files, one for
        each benchmark. Without a file: the model's own questions, or random pictures if it has no questions.
    picture: whether the study keeps a small copy of the picture, the scores of its tokens, and which of them merged
        into which. Kept tokens are always recorded.
    fidelity_inputs: how many questions or pictures the pruned model and the dense model both answer. None: all
        questions of a file; 24 of the model's own questions; otherwise no drawn pictures. Of several files: so many
        questions of each.

    device, dtype, attention: where and how the model runs.
    seed: seed of the weights, the inputs and the order of runs.
    gamma: the backward factor γ in the paper's F_ov = γ · Σ f(V).

    precision: the relative half width that is narrow enough for the interval of every prefill speed-up. Timing ends
        then, after eight processes at the earliest.
    seconds: timing of a block of at most 12 cells ends at the latest after this time, all its processes together.
    processes: the number of processes that time each cell, one after another. None: as many as fit into the time.
    preroll_ms: CUDA only. The stream is kept busy for this long before each run, so that the times contain no waiting
        for the host.
    cold_l2: CUDA only. The L2 cache is overwritten before each run.

    ablations: kinds `ablate` and `eval` only. For each group and each variant, the options that differ from the
        default.
    suite: kind `eval` only. A suite that ships with the package or a file, and perhaps its table: `trio:llava-1.5-7b`.
    tasks: kind `eval` only. The tasks of lmms-eval.
    task_path: kind `eval` only. A directory with further tasks.
    limit: kind `eval` only. Questions of each task. None: all.
    dense: kind `eval` only. Whether the dense model answers too.
    claimed: kind `flops` only. A printed figure.
    convention: kind `flops` only. The convention that the figure is compared with.
    causal: kind `flops` only. Whether the analytic total counts causal attention whole or halved.
    claims: kind `audit` only. A claims file, or the name of one that ships with the package.
    measured: kind `audit` only. The directory of a sweep with the same settings.
    gpu: kind `audit` only. The GPU of the printed times, if the claims file names none.
    """

    verb: str = "sweep"
    model: str = "pocket"
    methods: tuple[str, ...] = ("trio",)
    retentions: tuple[Share, ...] = (0.11, 0.22, 0.33, 0.44, 0.55, 0.66, 0.77, 0.88, 0.94, 0.99)
    layers: tuple[int, ...] | None = None
    options: dict[str, bool | int | float | str] = Field(default_factory=dict)
    image: str | None = None
    prompt: str | None = None
    pixels: tuple[int, int] | None = None
    text_tokens: Annotated[int, Field(ge=8, le=100_000)] | None = None
    new_tokens: Annotated[int, Field(ge=1, le=100_000)] = 8
    batch: Annotated[int, Field(ge=1, le=4096)] = 1
    device: str = "cpu"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    attention: str = "sdpa"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    gamma: Annotated[float, Field(gt=0, le=1000)] = 1.0
    precision: Annotated[float, Field(gt=0, lt=1)] = 0.05
    seconds: Annotated[float, Field(gt=0, le=10_000_000)] = 70.0
    processes: Annotated[int, Field(ge=1, le=MOST_PROCESSES)] | None = None
    preroll_ms: Annotated[float, Field(ge=0, le=10_000)] = 0.0
    cold_l2: bool = False
    questions: str | Annotated[tuple[str, ...], Field(min_length=2)] | None = None
    picture: bool = True
    fidelity_inputs: Annotated[int, Field(ge=0, le=10_000)] | None = None
    ablations: dict[str, dict[str, Options]] = Field(default_factory=dict)
    suite: str | None = None
    tasks: tuple[str, ...] = ()
    task_path: str | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    dense: bool = True
    claimed: str | None = None
    convention: str | None = None
    causal: Literal["dense", "half"] = "dense"
    claims: str | None = None
    measured: str | None = None
    gpu: str | None = None

    @property
    def question_files(self) -> tuple[str, ...]:
        """The files of questions."""
        if self.questions is None:
            return ()
        return (self.questions,) if isinstance(self.questions, str) else self.questions

    @field_validator("pixels", mode="before")
    @classmethod
    def _check_pixels(cls, value: Any) -> tuple[int, int] | None:
        """Raise ValueError unless the value is None or two numbers in order."""
        if value is None:
            return None
        if not isinstance(value, tuple | list) or len(value) != 2 or not all(type(one) is int for one in value):
            fault = "this is not two whole numbers"
        elif value[0] < 1:
            fault = "a picture has at least 1 pixel"
        elif value[1] < value[0]:
            fault = "the most is less than the least"
        elif value[1] > MOST_PIXELS:
            fault = f"the most can be {MOST_PIXELS}"
        else:
            return value[0], value[1]
        raise ValueError(f"{fault}; give the least and the most pixels of a picture, such as 3136,1003520")

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
