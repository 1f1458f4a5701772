"""Every option of the study verbs, declared once.

A kind of study names the options that it takes (`Kind.options`). `parameters` makes a verb's signature of them, and
`fields` turns what was given on the line into fields of a Study.
"""

from dataclasses import replace
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from trio_profile import units
from trio_profile.cli.common_options import DRY_RUN, JSON, LATEX, LOG, MARKDOWN, OUTPUT, RESUME, STUDY_FILE
from trio_profile.cli.engines import ENGINE, ENGINE_OPTIONS
from trio_profile.cli.option import CLAIM, INPUT, METHOD, MODEL, PANELS, SAMPLING, Option
from trio_profile.cli.server_options import SERVER_OPTIONS
from trio_profile.cli.values import absolute, assignments, comma_list, name_or_path, one_or_more
from trio_profile.records.files import MEASUREMENTS
from trio_profile.studies.kind import Kind
from trio_profile.studies.kinds import FIELDS

OPTIONS: dict[str, Option] = {
    "claims": Option(
        CLAIM,
        str,
        "A claims file, or the name of one that ships with the package, such as trio-2026.",
        read=name_or_path,
        positional=True,
    ),
    **SERVER_OPTIONS,
    # Model
    "model": Option(MODEL, str, "A built-in model, a checkpoint directory, or a hub repository.", "pocket"),
    "device": Option(MODEL, str, "cpu or cuda; for flops also meta (any size, no weights).", "cuda if there is one"),
    "dtype": Option(
        MODEL, Literal["float32", "bfloat16", "float16"], "Number format.", "bfloat16 on CUDA, otherwise float32"
    ),
    "attention": Option(MODEL, str, "Attention kernel: eager, sdpa, flash_attention_2.", "sdpa"),
    "seed": Option(MODEL, int, "Seed of random weights, of random inputs and of the order of runs.", "0"),
    # Method
    "method": Option(
        METHOD,
        list[str],
        "A method, package.module:Class, or two with a + (visionzip+trio). Repeat it for several.",
        "trio",
        empty="all methods",
        read=tuple,
    ),
    "retention": Option(
        METHOD,
        str,
        "Comma list of shares: how much of the visual tokens to keep, averaged over the decoder's layers.",
        "0.11,0.22,0.33,0.44,0.55,0.66,0.77,0.88,0.94,0.99",
        empty="the dense model alone",
        read=comma_list(float),
        metavar="SHARES",
    ),
    "layers": Option(
        METHOD,
        str,
        "Comma list of decoder layers: prune after each of them.",
        "the paper's, for the model's depth",
        read=comma_list(int),
        metavar="LAYERS",
    ),
    "option": Option(
        METHOD,
        list[str],
        "An option of the method. Repeat it for several.",
        names=("--option", "-o"),
        read=assignments,
        metavar="NAME=VALUE",
    ),
    "budget_rule": Option(
        METHOD,
        Literal["average", "after-prune", "final"],
        "What a retention means: the average over layers, the share after the first pruning, or the share at the end.",
        "average",
        read=lambda rule: {"budget_rule": rule},
    ),
    "gamma": Option(METHOD, float, "The factor γ of the paper's formula for the work of the selection (F_ov).", "1"),
    "only": Option(
        METHOD,
        list[str],
        "A group of variants: k_pos, threshold, layers, probe or saliency. Repeat it for several.",
        "all groups",
        read=lambda groups: {group: {} for group in groups},
    ),
    # Input
    "image": Option(INPUT, Path, "A picture file, for a model that has a processor.", read=absolute),
    "prompt": Option(INPUT, str, "The question about the picture."),
    "pixels": Option(
        INPUT,
        str,
        "For Qwen's families: the least and the most pixels of a picture when the model sees it. Its shape stays.",
        "as the checkpoint's processor says",
        read=comma_list(int),
        metavar="LEAST,MOST",
    ),
    "picture": Option(
        INPUT,
        bool,
        "Keep a small copy of the picture and the scores of its tokens, for the page. --no-picture keeps a private "
        "picture out of the study and its page.",
        "--picture",
        names=("--picture/--no-picture",),
    ),
    "questions": Option(
        INPUT,
        list[Path],
        "A file of questions about pictures, as JSON Lines: image, question, answer, kind, scene.",
        "the model's own questions if it has some",
        read=one_or_more,
    ),
    "asked": Option(
        INPUT,
        int,
        "How many questions both models answer, pruned and dense. Without questions: how many drawn pictures.",
        "all questions of a file; 24 for pocket; otherwise 8 drawn pictures (sweep: none)",
        minimum=1,
    ),
    "text_tokens": Option(
        INPUT, int, "Text tokens beside a drawn picture.", "60, or the question of a model that has questions"
    ),
    "new_tokens": Option(INPUT, int, "Tokens generated in each run.", "8"),
    "batch": Option(INPUT, int, "Samples in a batch.", "1"),
    "suite": Option(
        INPUT,
        str,
        "The benchmarks, methods and retentions of a paper's table: trio, trio:llava-1.5-7b, or a file of your own.",
        metavar="NAME[:TABLE]",
    ),
    "tasks": Option(INPUT, str, "Comma list of tasks of lmms-eval, such as pope,gqa.", read=comma_list(str)),
    "task_path": Option(INPUT, Path, "A directory with YAML files of your own tasks.", read=absolute),
    "limit": Option(INPUT, int, "Ask the first N questions of each task.", "all", minimum=1),
    "dense": Option(
        INPUT,
        bool,
        "Also ask the dense model, question by question. This gives differences and speed-ups.",
        "--dense",
        names=("--dense/--no-dense",),
    ),
    # Claim
    "claimed": Option(CLAIM, str, "A printed figure for this prefill, such as 2.98e12; its convention is found."),
    "convention": Option(CLAIM, str, "Compare --claimed with this convention only, such as all-ffn3-heads-flops."),
    "causal": Option(
        CLAIM,
        Literal["dense", "half"],
        "Count causal attention in full (dense), as operator counters do, or halved (half).",
        "dense",
    ),
    "measured": Option(
        CLAIM, Path, "The directory of a sweep that measured the same settings (its --out).", read=absolute
    ),
    "gpu": Option(CLAIM, str, "The GPU of the printed times, such as a100. For claims files that name none."),
    # Sampling
    "seconds": Option(
        SAMPLING,
        float,
        "How long the times are measured at the most: all retentions together, or each 12 cells of a larger study. "
        "A finished study goes on if it is more than before.",
        "70",
    ),
    "until": Option(
        SAMPLING,
        float,
        "Stop earlier if the 95 % interval of every speed-up is as narrow as this: its half width, as a share. "
        "If it is given without --seconds, an hour is allowed.",
        "0.05",
        metavar="SHARE",
    ),
    "processes": Option(
        SAMPLING,
        int,
        "How many processes time each cell, one after another. They share the time.",
        "as many as fit; with workers 8",
        minimum=1,
    ),
    "preroll_ms": Option(
        SAMPLING, float, "CUDA: keep the stream busy for this time before each run, to time the device alone.", "0"
    ),
    "cold_l2": Option(
        SAMPLING, bool, "CUDA: overwrite the L2 cache before each run.", "--warm-l2", names=("--cold-l2/--warm-l2",)
    ),
    # Output
    "unit": Option(OUTPUT, Literal["macs", "flops"], "Unit of the tables.", "macs"),
}
"""Every option that a kind of study may take, by its name, in the order of the help."""

SPECIAL: dict[tuple[str, str], Option] = {
    ("eval", "method"): replace(OPTIONS["method"], empty="the suite's; without a suite trio"),
    ("eval", "retention"): replace(OPTIONS["retention"], empty="the suite's; without a suite 0.333"),
    ("flops", "method"): replace(OPTIONS["method"], empty="trio if --retention is given; otherwise the dense model"),
}
"""Options that mean something else for one kind: by the kind and the option's name."""

LONGEST_SECONDS = 3600.0
"""How long `--until` measures at the most, if no other time is given."""
NARROWEST = 0.026
"""The half width that the machine's state alone gives an interval on a CPU: stats/intervals.py, MACHINE_SPREAD."""
_ONE = {
    "methods": "A method, or package.module:Class.",
    "retentions": "Share of the visual tokens kept, averaged over the decoder's layers.",
}
"""Help of options that some kinds take once."""

DISPLAY = ("unit",)
"""Options that change how a document is drawn, not what is asked."""


def parameters(kind: Kind) -> list[Parameter]:
    """The parameters of a kind's verb: the options that it takes, then those of every verb."""
    names = sorted((name for name in OPTIONS if name in kind.options), key=_place)
    taken = [parameter(name, replace(option_of(name, kind), default=default_of(name, kind))) for name in names]
    directory = Path(kind.out) if kind.out else None
    common = {"study": (STUDY_FILE, None), "out": (_out(kind), directory), "resume": (RESUME, True), "log": (LOG, None)}
    common |= {name: (type_, False) for name, type_ in (("dry_run", DRY_RUN), ("json", JSON))}
    common |= {name: (type_, False) for name, type_ in (("markdown", MARKDOWN), ("latex", LATEX))}
    if kind.file == MEASUREMENTS:
        common |= {"engine": (ENGINE, None), **ENGINE_OPTIONS}
    return taken + [keyword(name, type_, default) for name, (type_, default) in common.items()]


def _place(name: str) -> int:
    """Where the panel of an option stands in the help. Arguments come first."""
    option = OPTIONS[name]
    return -1 if option.positional else PANELS.index(option.panel)


def keyword(name: str, type_: Any, default: Any = None) -> Parameter:
    """A keyword parameter of a verb, as typer reads it."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=type_)


def fields(given: dict[str, Any]) -> dict[str, Any]:
    """What was given on the line, as fields of a Study. Options without a value are left out.

    Raises BadParameter for text that cannot be read.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in OPTIONS or name in DISPLAY or value is None or value == []:
            continue
        option = OPTIONS[name]
        try:
            read = option.read(value) if option.read else value
        except ValueError as error:
            raise typer.BadParameter(f"{_flag(name)} {value!r} is not a comma list of numbers ({error})") from error
        field = field_of(name)
        # --option and --budget-rule fill one table.
        found[field] = {**found.get(field, {}), **read} if isinstance(read, dict) else read
    if "precision" in found and "seconds" not in found:
        if found["precision"] < NARROWEST and not str(found.get("device", "cpu")).startswith("cuda"):
            raise typer.BadParameter(
                f"{_flag('until')} {found['precision']:g} cannot be reached: an interval on a CPU is never narrower "
                f"than {NARROWEST:g}, because the machine's state differs from hour to hour; ask for more, or for a "
                "time with --seconds"
            )
        found["seconds"] = LONGEST_SECONDS
    return found


def field_of(name: str) -> str:
    """The field of Study that an option fills."""
    return FIELDS.get(name, name)


def option_of(name: str, kind: Kind) -> Option:
    """The option of this name, as a kind of study takes it."""
    option = SPECIAL.get((kind.name, name), OPTIONS[name])
    option = replace(option, help=kind.helps.get(name, option.help))
    field = field_of(name)
    if field in _ONE and field not in kind.several:
        return replace(option, help=_ONE[field])
    return option


def default_of(name: str, kind: Kind) -> str:
    """The default of an option for a kind of study, as the help says it. Empty if it has none."""
    option = option_of(name, kind)
    field = field_of(name)
    if field not in kind.defaults:
        return option.default
    value = kind.defaults[field]
    if value == ():
        return option.empty
    parts = value if isinstance(value, tuple) else (value,)
    return ",".join(part if isinstance(part, str) else units.plain(part) for part in parts)


def parameter(name: str, option: Option) -> Parameter:
    """The parameter of a verb that reads an option of this name. The help says the option's default."""
    text = f"{option.help} Default: {option.default}." if option.default else option.help
    if option.positional:
        return keyword(name, Annotated[option.type | None, typer.Argument(help=text, metavar=name.upper())])
    declared = typer.Option(
        *(option.names or (_flag(name),)),
        help=text,
        rich_help_panel=option.panel,
        min=option.minimum,
        metavar=option.metavar,
        show_default=False,
    )
    return keyword(name, Annotated[option.type | None, declared])


def _out(kind: Kind) -> Any:
    default = kind.out or "nothing is kept"
    return Annotated[
        Path | None,
        typer.Option(
            "--out",
            help=f"Keep the study and its report in this directory. Default: {default}.",
            rich_help_panel=OUTPUT,
            show_default=False,
        ),
    ]


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
