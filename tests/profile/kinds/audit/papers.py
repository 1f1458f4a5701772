"""Synthetic papers: claims that follow from a random model and schedule, and the same with one figure gone wrong.

Nothing here comes from the code that audits them: work, caches and averages are written out again.

    paper(7)               a consistent one, as the text of a claims file
    planted(7)             the same kind with one inconsistency, where it stands, and what it may be called
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from math import floor, log10
from random import Random
from typing import Any

import yaml

PEAK_A100 = 312e12


@dataclass
class Paper:
    """A claims file in the making, and the true numbers behind its prints. prints: by table, row and field."""

    draw: Random
    tree: dict[str, Any] = field(default_factory=dict)
    truth: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return yaml.safe_dump(self.tree, sort_keys=False, allow_unicode=True)

    def printed(self, value: float | Fraction, digits: int) -> str:
        """A value in so many decimals, rounded or cut off."""
        exact = Decimal(Fraction(value).numerator) / Decimal(Fraction(value).denominator)
        how = self.draw.choice((ROUND_HALF_UP, ROUND_DOWN))
        return f"{exact.quantize(Decimal(1).scaleb(-digits), how):f}"

    def rows(self) -> dict[str, Any]:
        return self.tree["tables"]["main"]["rows"]


def paper(seed: int) -> Paper:
    """A consistent paper."""
    draw = Random(seed)
    made = Paper(draw)
    model, name = _model(draw), draw.choice(("tiny-vl", "big-vl-13b", "some model"))
    method = draw.choice(("prune", "dropit", "shrink"))
    stages = tuple(sorted(draw.sample(range(1, model["layers"] - 1), draw.randint(1, 3))))
    text = draw.randint(20, 200)
    count = _count(draw, model)
    gamma = draw.choice((None, "1", "2.0", "1.5"))
    mib = draw.choice((2**20, 10**6))
    states_text = draw.random() < 0.7 or "all" in count.code
    made.tree = {
        "paper": f"{method.upper()}: a paper of arithmetic, number {seed}",
        "models": {name: {key: str(value) for key, value in model.items()}},
        "method": {"name": method, "pruning_layers": {name: [str(stage) for stage in stages]}},
        "tables": {},
    }
    if gamma is not None:
        made.tree["method"]["gamma"] = gamma
    dense = _setting(made, model, count, text, (model["visual_tokens"],) * model["layers"], None)
    settings = []
    for share in sorted(draw.sample((0.09, 0.15, 0.25, 0.4, 0.6), draw.randint(1, 3))):
        keep = _budgets(draw, model, stages, share)
        by_layer = _by_layer(model, stages, keep)
        looked = (model["visual_tokens"], *keep[:-1])
        settings.append((keep, _setting(made, model, count, text, by_layer, gamma and (gamma, looked))))
    table: dict[str, Any] = {"where": "Table 1", "dataset": "POPE"}
    common = {"model": name} | ({"text_tokens": str(text)} if states_text else {})
    if draw.random() < 0.5 or "all" in count.code:
        table["convention"] = count.code
    if draw.random() < 0.5:
        table["device"] = "NVIDIA A100-SXM4-80GB"
    kv_unit, kv_bytes = ("kv_mb", mib) if draw.random() < 0.7 else ("kv_gb", 2**30 if mib == 2**20 else 10**9)
    # So many decimals that even the smallest of a column is printed in three digits.
    kv_digits = _decimals(min(truth["kv"] for _, truth in settings) / kv_bytes)
    work_digits = _decimals(min(truth["work"] for _, truth in settings) / 10**12)

    def row(truth: dict[str, Any]) -> dict[str, Any]:
        return {
            "flops_t": made.printed(Fraction(truth["work"], 10**12), work_digits),
            "prefill_ms": made.printed(truth["prefill"], 1),
            "decode_ms": made.printed(truth["decode"], 1),
            "total_ms": made.printed(truth["prefill"] + truth["decode"], 1),
            kv_unit: made.printed(Fraction(truth["kv"], kv_bytes), kv_digits),
        }

    rows: dict[str, Any] = {"baseline": common | {"method": "dense", "figures": row(dense)}}
    publishes = draw.random() < 0.6
    labels = {}
    for keep, truth in settings:
        average = Fraction(truth["tokens"], model["layers"])
        percent = made.printed(100 * average / model["visual_tokens"], 2)
        label, share = f"{method} {percent}%", f"{Decimal(percent).scaleb(-2):f}"
        rows[label] = common | {"method": method, "retention": share, "overhead": "true" if gamma else "false"}
        labels[label] = truth
        if publishes:
            rows[label]["schedule"] = {"layers": [str(s) for s in stages], "keep": [str(k) for k in keep]}
        rows[label]["figures"] = row(truth) | _ratios(made, dense, truth)
    made.tree["tables"]["main"] = table | {"rows": rows}
    first, truth = next(iter(labels.items()))
    unpruned = {"model": name, "method": "dense"}
    own = {"model": name, "method": method, "retention": rows[first]["retention"]}
    claims = own | {"figures": _ratios(made, dense, truth)}
    made.tree["tables"]["abstract"] = {"where": "Abstract", "rows": {"claims": claims}}
    again = {"baseline": unpruned, first: own}
    made.tree["tables"]["again"] = {
        "rows": {
            label: fields | {"figures": {"prefill_ms": rows[label]["figures"]["prefill_ms"]}}
            for label, fields in again.items()
        }
    }
    made.tree["tables"]["tower"] = _tower(made, again, rows, dense["prefill"], truth["prefill"])
    made.tree["tables"]["sweep"] = _sweep(made, unpruned, method, stages[0] / model["layers"])
    made.tree["tables"]["accuracy"] = _accuracy(made, again)
    made.truth = {"kv": kv_unit, "label": first}
    return made


def planted(seed: int) -> tuple[Paper, str, str, tuple[str, ...]]:
    """A paper with one inconsistency: the paper, what was done, the place and the quantities that may name it."""
    made = paper(10_000 + seed)
    kinds = sorted(PLANTS)
    while True:
        kind = kinds[seed % len(kinds)]
        if (named := PLANTS[kind](made)) is not None:
            return made, kind, *named
        seed += 1


# --- what is true ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Count:
    """A way to count a prefill, written out: its code, and its work of one layer and beside the layers."""

    code: str
    layer: Callable[[int, int], int]
    beside: Callable[[int, int], int]


def _model(draw: Random) -> dict[str, int]:
    heads, head_dim = draw.choice((16, 24, 28, 32, 40)), draw.choice((64, 128))
    divisors = [k for k in range(1, heads + 1) if heads % k == 0]
    return {
        "layers": draw.choice((24, 28, 32, 40)),
        "hidden": heads * head_dim,
        "intermediate": heads * head_dim * draw.choice((2, 3, 4)) + 64 * draw.randint(0, 20),
        "heads": heads,
        "kv_heads": draw.choice(divisors),
        "vocab": draw.randint(30_000, 160_000),
        "visual_tokens": draw.choice((256, 576, 729, 1024, 1296, 2048, 2880)),
    }


def _count(draw: Random, model: dict[str, int]) -> _Count:
    d, m, v = model["hidden"], model["intermediate"], model["vocab"]
    kv = d // model["heads"] * model["kv_heads"]
    ffn, tokens, head = draw.choice((2, 3)), draw.choice(("visual", "all")), draw.choice(("", "head", "heads"))
    scale = draw.choice((1, 2))

    def layer(visual: int, text: int) -> int:
        n = visual + (text if tokens == "all" else 0)
        linear = 4 * d * d if ffn == 2 else 2 * d * d + 2 * d * kv
        return scale * (n * linear + 2 * n * n * d + ffn * n * d * m)

    def beside(visual: int, text: int) -> int:
        n = visual + (text if tokens == "all" else 0)
        return scale * d * v * {"": 0, "head": 1, "heads": n}[head]

    code = "-".join(part for part in (tokens, f"ffn{ffn}", head, "flops" if scale == 2 else "macs") if part)
    return _Count(code, layer, beside)


def _setting(
    made: Paper,
    model: dict[str, int],
    count: _Count,
    text: int,
    by_layer: tuple[int, ...],
    gamma: tuple[str, tuple[int, ...]] | None,
) -> dict[str, Any]:
    work = Fraction(sum(count.layer(n, text) for n in by_layer) + count.beside(by_layer[-1], text))
    if gamma is not None:
        work += Fraction(gamma[0]) * sum(count.layer(n, text) for n in gamma[1])
    kv_width = model["hidden"] // model["heads"] * model["kv_heads"]
    # At most 60 % of an A100's peak for every product that could be meant.
    flops = sum(2 * n * (12 * model["hidden"] ** 2 + 4 * model["hidden"] * model["intermediate"]) for n in by_layer)
    flops += sum(8 * n * n * model["hidden"] for n in by_layer)
    return {
        "work": work,
        "kv": (sum(by_layer) + text * len(by_layer)) * 2 * kv_width * 2,
        "tokens": sum(by_layer),
        "prefill": 1000 * flops / PEAK_A100 / made.draw.uniform(0.2, 0.6) + 20,
        "decode": made.truth.setdefault("decode", made.draw.uniform(50, 900)) * made.draw.uniform(0.99, 1.01),
    }


def _budgets(draw: Random, model: dict[str, int], stages: tuple[int, ...], share: float) -> tuple[int, ...]:
    """Tokens that never grow, the first of them a random part around the share."""
    most, keep = model["visual_tokens"], []
    for _ in stages:
        most = max(1, min(most, round(most * draw.uniform(0.5, 1.0) * (share if not keep else 1))))
        keep.append(most)
    return tuple(keep)


def _by_layer(model: dict[str, int], stages: tuple[int, ...], keep: tuple[int, ...]) -> tuple[int, ...]:
    now, tokens = model["visual_tokens"], []
    for layer in range(model["layers"]):
        if layer in stages:
            now = keep[stages.index(layer)]
        tokens.append(now)
    return tuple(tokens)


def _ratios(made: Paper, dense: dict[str, Any], truth: dict[str, Any]) -> dict[str, str]:
    whole, part = dense["prefill"] + dense["decode"], truth["prefill"] + truth["decode"]
    found = {
        "prefill_speedup": made.printed(dense["prefill"] / truth["prefill"], 2),
        "kv_ratio": made.printed(Fraction(dense["kv"], truth["kv"]), 2),
        "flops_of_dense_pct": made.printed(100 * truth["work"] / dense["work"], 1),
        "total_reduction_pct": made.printed(100 * (1 - part / whole), 1),
    }
    return {name: text for name, text in found.items() if Decimal(text) > 0}


def _tower(made: Paper, again: dict[str, Any], rows: dict[str, Any], dense: float, own: float) -> dict[str, Any]:
    """The tower's time and its share of the time to first token, before and after. It takes as long in both."""
    vision = made.draw.uniform(0.2, 2) * dense
    table = {}
    for (label, fields), prefill in zip(again.items(), (dense, own), strict=True):
        figures = {
            "vision_ms": made.printed(vision, 1),
            "prefill_ms": rows[label]["figures"]["prefill_ms"],
            "vision_of_ttft_pct": made.printed(100 * vision / (vision + prefill), 1),
        }
        table[label] = fields | {"figures": figures}
    table[label]["figures"]["ttft_speedup"] = made.printed((vision + dense) / (vision + own), 2)
    return {"rows": table}


def _sweep(made: Paper, unpruned: dict[str, Any], method: str, least: float) -> dict[str, Any]:
    """A line over retentions that crosses the dense time, and a claim of the points between which it does.

    least: what the layers before the first stage make of every average.
    """
    dense, start = made.draw.randint(2000, 9000), made.draw.uniform(0.3, 0.7)
    at = [least + (1 - least) * share for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)]
    crossing = made.draw.uniform(at[1], at[7])
    times = [dense * (start + (1 - start) * x / crossing) for x in at]
    low = max(x for x, t in zip(at, times, strict=True) if round(t) < dense)
    high = min(x for x, t in zip(at, times, strict=True) if round(t) >= dense)
    own = unpruned | {"method": method}
    rows = {"baseline": unpruned | {"figures": {"total_s": str(dense)}}}
    for x, t in zip(at, times, strict=True):
        rows[f"{x:.3f}"] = own | {"retention": f"{x:.3f}", "figures": {"total_s": str(round(t))}}
    return {"rows": rows | {"claims": own | {"break_even": [f"{low:.3f}", f"{high:.3f}"]}}}


def _decimals(value: float | Fraction) -> int:
    """Decimals in which a value has three digits or more."""
    return max(0, 3 - len(str(int(value)))) if value >= 1 else 3 + max(0, -floor(log10(value)) - 1)


def _accuracy(made: Paper, rows: dict[str, Any]) -> dict[str, Any]:
    """The scores of a dense row and of a pruned row."""
    draw, benchmarks = made.draw, ["A", "B", "C", "D"][: made.draw.randint(2, 4)]
    dense = [draw.uniform(40, 90) for _ in benchmarks]
    own = [score * draw.uniform(0.8, 1.01) for score in dense]
    mean = 100 * sum(mine / its for mine, its in zip(own, dense, strict=True)) / len(dense)
    (baseline, unpruned), (label, pruned) = rows.items()
    unpruned = unpruned | {"scores": [made.printed(score, 1) for score in dense]}
    figures = {"accuracy_kept_pct": made.printed(mean, 1)}
    pruned = pruned | {"figures": figures, "scores": [made.printed(score, 1) for score in own]}
    return {"benchmarks": benchmarks, "rows": {baseline: unpruned, label: pruned}}


# --- what can go wrong -------------------------------------------------------------------------------------------

Named = tuple[str, tuple[str, ...]] | None
"""The place, and the quantities; None where a paper has nothing of the kind."""


def _scaled(text: str, factor: float) -> str:
    digits = -int(Decimal(text).as_tuple().exponent)
    return f"{Decimal(str(float(text) * factor)):.{digits}f}"


@dataclass(frozen=True)
class _Figure:
    """A printed figure that is multiplied.

    table, row: its place; the row is the pruned one if it is empty.
    quantity: of the figure; `kv` is the cache in the unit of the paper.
    needs: fields that the main table or the rows of the paper must have.
    names: the quantities that may be named instead. at: the table that may be named instead.
    """

    table: str
    row: str
    quantity: str
    factor: float
    needs: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    at: str = ""

    def __call__(self, made: Paper) -> Named:
        label = made.truth["label"]
        if not {*self.needs} <= {*made.tree["tables"]["main"], *made.rows()["baseline"], *made.rows()[label]}:
            return None
        row, quantity = self.row or label, made.truth["kv"] if self.quantity == "kv" else self.quantity
        figures = made.tree["tables"][self.table]["rows"][row]["figures"]
        figures[quantity] = _scaled(figures[quantity], self.factor)
        return f"{self.at or self.table}, {row}", self.names or (quantity,)


def _average(made: Paper) -> Named:
    row = made.rows()[made.truth["label"]]
    if "schedule" not in row:
        return None
    row["schedule"]["keep"] = [str(int(int(keep) * 0.7)) for keep in row["schedule"]["keep"]]
    return f"main, {made.truth['label']}", ("retention",)


def _longer_prefill(made: Paper) -> Named:
    figures = made.rows()["baseline"]["figures"]
    del figures["decode_ms"]
    figures["total_ms"] = _scaled(figures["prefill_ms"], 0.7)
    return "main, baseline", ("prefill_ms",)


def _break_even(made: Paper) -> Named:
    made.tree["tables"]["sweep"]["rows"]["claims"]["break_even"] = ["0.10", "0.20"]
    return "sweep, claims", ("break_even",)


PLANTS: dict[str, Callable[[Paper], Named]] = {
    "a ratio": _Figure("main", "", "prefill_speedup", 1.12),
    "a ratio of the abstract": _Figure("abstract", "claims", "kv_ratio", 1.15),
    "a dense cache": _Figure("main", "baseline", "kv", 1.25, needs=("text_tokens",)),
    "a pruned cache": _Figure("main", "", "kv", 1.3, names=("retention", "kv_ratio")),
    "dense work": _Figure("main", "baseline", "flops_t", 1.2, needs=("convention",)),
    "pruned work": _Figure("main", "", "flops_t", 0.8, needs=("convention", "schedule")),
    "one setting, two prints": _Figure("again", "", "prefill_ms", 1.05, at="main"),
    "budgets of another average": _average,
    "a sum": _Figure("main", "", "decode_ms", 1.2, names=("total_ms",)),
    "a prefill longer than the total": _longer_prefill,
    "a break-even": _break_even,
    "a mean of scores": _Figure("accuracy", "", "accuracy_kept_pct", 1.01),
    "a prefill faster than the device": _Figure("main", "baseline", "prefill_ms", 0.02, needs=("device",)),
    "a share of the tower": _Figure("tower", "", "vision_of_ttft_pct", 0.8),
}
