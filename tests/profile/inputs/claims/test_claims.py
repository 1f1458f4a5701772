"""The format of claims files: what is read out of one, and that what is wrong with one is named by line and field."""

from pathlib import Path

import pytest

from trio_profile.errors import ClaimsError
from trio_profile.inputs.claims.claims import BUILTIN, TEMPLATE, Claims, builtin, of_source, quantity, read
from trio_profile.records.facts import models
from trio_profile.records.yaml_source import parse

PAPER = """\
paper: "PRUNE: a paper"
models:
  vl-7b: {layers: 32, hidden: 4096, intermediate: 11008, heads: 32, visual_tokens: 576}
method:
  name: Prune
  pruning_layers: {vl-7b: [1, 10, 15]}
  published_budgets:
    average 64: {model: vl-7b, tokens: 64, layers: [1, 10, 15], keep: [92, 54, 22]}
tables:
  main:
    rows:
      baseline: {model: vl-7b, method: dense, figures: {flops_t: 2.98, prefill_s: 1401, kv_mb: 318}}
      pruned: {model: vl-7b, method: prune, retention: 0.111, figures: {flops_t: 0.45, prefill_s: 1106, kv_mb: 62}}
"""
ROWS = PAPER[PAPER.index("    rows:") :]


def claims(text: str) -> Claims:
    return of_source(parse(text, "claims.yaml"), "claims")


# --- what is read ------------------------------------------------------------------------------------------------


def test_a_table_keeps_its_figures_as_printed():
    paper = claims(PAPER.replace("0.45", "0.450").replace("method: prune", "method: PRUNE"))
    baseline, pruned = paper.tables["main"].rows.values()
    assert paper.method.name == "prune"
    assert baseline.dense and not pruned.dense
    assert (pruned.method, pruned.retention) == ("prune", "0.111")
    assert pruned.figures == {"flops_t": "0.450", "prefill_s": "1106", "kv_mb": "62"}
    assert (paper.layers_of(pruned), paper.layers_of(baseline)) == ((1, 10, 15), ())
    published = paper.method.published_budgets["average 64"]
    assert published.tokens_by_layer(paper.models["vl-7b"])[::8] == [576, 92, 22, 22]


def test_shares_and_counts_make_a_schedule():
    schedule = "schedule: {encoder_ratio: 0.5, layers: [16], keep_ratio: [0.25]}"
    paper = claims(PAPER.replace("figures: {flops_t: 0.45,", f"{schedule}, figures: {{"))
    row = paper.tables["main"].rows["pruned"]
    assert row.schedule is not None
    assert row.schedule.tokens_by_layer(paper.models["vl-7b"]) == [288] * 16 + [72] * 16


@pytest.mark.parametrize("entry", [None, "{}", "{qwen2.5-vl-7b: {visual_tokens: 288}}"])
def test_a_built_in_model_has_its_sizes_unless_the_file_says_others(entry: str | None):
    text = PAPER.replace("vl-7b", "qwen2.5-vl-7b").replace("[1, 10, 15]", "[1, 10]").replace(", 22]", "]")
    before, after = text[: text.index("models:")], text[text.index("method:") :]
    text = before + (f"models: {entry}\n" if entry else "") + after
    [(name, model)] = claims(text).models.items()
    visual_tokens = 288 if "288" in text else models()[name].visual_tokens
    assert (name, model.layers, model.kv_heads, model.kv_width) == ("qwen2.5-vl-7b", 28, 4, 512)
    assert (model.vocab, model.visual_tokens) == (152064, visual_tokens)


def test_a_quantity_carries_its_unit():
    assert quantity("flops_t").scale == 10**12
    assert quantity("kv_gib").scale == 2**30
    assert quantity("prefill_ms").scale * 1000 == quantity("total_s").scale == 1
    assert (quantity("inference_speedup").base, quantity("inference_speedup").form) == ("total", "ratio")
    assert quantity("flops_reduction_pct").form == "reduction"
    assert quantity("kv_of_dense_pct").form == "share"
    with pytest.raises(ValueError, match="the nearest are kv_"):
        quantity("kv_s")


def test_claims_that_ship_are_read_and_so_is_the_template():
    names = {"trio-2026", "fastv", "vtw", "pyramiddrop", "sparsevlm", "visionzip", "dart", "llava-1.5-flops", "video"}
    assert set(builtin()) == names == {path.stem for path in BUILTIN.glob("*")}
    for name in (*names, str(TEMPLATE)):
        assert read(name).tables


# --- what is refused ---------------------------------------------------------------------------------------------

BAD = [
    # what is put in the place of what in PAPER, or a text; the line; what the complaint says
    (("flops_t: 0.45", "flops_ms: 0.45"), 13, "flops_ms: no known quantity; the nearest are flops_m"),
    (("prefill_s: 1106", "prefil_s: 1106"), 13, "prefil_s: no known quantity; the nearest are prefill_s"),
    (("flops_t: 0.45", "flops_t: -0.45"), 13, "tables.main.rows.pruned.figures.flops_t: -0.45 is not above 0"),
    (("flops_t: 0.45", "flops_t: .nan"), 13, "'.nan' is not a decimal number"),
    (("flops_t: 0.45", "flops_t: [0.45]"), 13, "flops_t: needs a number"),
    (("retention: 0.111", "retention: 1.5"), 13, "retention: 1.5 is more than 1"),
    (("retention: 0.111", "tokens: 577"), 13, "tokens: 577 of 576 visual tokens"),
    (("retention: 0.111", "break_even: [0.7, 0.6]"), 13, "break_even: takes two retentions"),
    (("retention: 0.111", "scores: [1, 2]"), 13, "scores: 2 scores for 0 benchmarks"),
    (("retention: 0.111", "label: a"), 13, "label: no known field"),
    (("hidden: 4096, ", ""), 3, "models.vl-7b.hidden: is missing"),
    (("heads: 32", "heads: 32, kv_heads: 5"), 3, "kv_heads: 5 do not divide 32 heads"),
    (("heads: 32", "heads: 30"), 3, "head_dim: is needed, because 30 heads do not divide hidden 4096"),
    (("[1, 10, 15]}\n", "[1, 10, 32]}\n"), 6, "pruning_layers.vl-7b: 32 is not inside the decoder"),
    (("[1, 10, 15]}\n", "[10, 1]}\n"), 6, "[10, 1] do not ascend"),
    (("keep: [92, 54, 22]", "keep: [92, 54]"), 8, "3 layers, but budgets for 2"),
    (("keep: [92, 54, 22]", "keep: [92, 154, 22]"), 8, "no stage may hold more than the one before it"),
    (("model: vl-7b", "model: vl-8b"), 13, "'vl-8b' is none of vl-7b"),
    (("model: vl-7b", "modle: vl-7b"), 13, "modle: no known field; perhaps model"),
    (("method: prune", "retention: 0.1"), 13, "stands twice"),
    (("main:", "main:\n    dtype: float1"), 11, "dtype: 'float1' is none of"),
    (("main:", "main:\n    convention: visual-ffn9-macs"), 11, "the nearest are"),
    (("main:", "main:\n    samples: many"), 11, "tables.main.samples"),
    (('paper: "PRUNE: a paper"\n', ""), 1, "paper: is missing"),
    ((ROWS, "    rows: {}\n"), 11, "tables.main.rows: needs at least 1"),
    ((ROWS, ""), 9, "tables: needs at least 1"),
    (("{flops_t: 0.45, prefill_s: 1106, kv_mb: 62}", "{}"), 13, "holds no figure"),
    (("flops_t: 0.45", "flops_t: &a 0.45"), 13, "anchors and aliases are not allowed"),
    (("flops_t: 0.45", "flops_t: !!python/name:os.system 0.45"), 13, "tag tag:yaml.org,2002:python/name:os.system"),
    (("flops_t: 0.45", "? [a, b]\n        : 0.45"), 13, "a key must be a plain word"),
    (('"PRUNE: a paper"', '"PRUNE \\e[31m: a paper"'), 1, "a character that cannot be shown"),
    (("flops_t: 0.45", "flops_t: [0.45"), 13, "is not YAML"),
    ("", 1, "is empty"),
    ("- 1\n- 2\n", 1, "needs fields with values"),
    (PAPER + "---\n" + PAPER, 14, "holds more than one document"),
    ("a: " + "[" * 400 + "]" * 400, 1, "nests deeper than 12"),
    ("a: [" + "1, " * 60_000 + "]", 1, "holds over 50000 parts"),
    (PAPER + "".join(PAPER.splitlines(keepends=True)[-1].replace("pruned", f"row {i}") for i in range(999)), 9,
     "tables: hold more than 1000 rows"),
]  # fmt: skip


def test_an_error_names_its_line_and_field(tmp_path: Path):
    for change, line, says in BAD:
        text = change if isinstance(change, str) else str.join(change[1], PAPER.rsplit(change[0], 1))
        assert text != PAPER
        with pytest.raises(ClaimsError) as error:
            claims(text)
        complaint = str(error.value)
        assert complaint.startswith(f"claims.yaml, line {line}: ") and says in complaint
        assert "\n" not in complaint and len(complaint) < 1200
    path = tmp_path / "claims.yaml"
    path.write_text("- 1\n")
    with pytest.raises(ClaimsError, match=f"^{path}, line 1: "):
        read(str(path))


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path):
    def complaint(claims: str) -> str:
        with pytest.raises(ClaimsError) as error:
            read(claims)
        return str(error.value)

    large = tmp_path / "large.yaml"
    with large.open("wb") as file:
        file.write(b"a: [\n")
        file.truncate(100_000_000)  # a hole in the file: no disk is filled
    assert "it has more than 1000000 bytes" in complaint(str(large))
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"paper: x\nmodels: \xff\xfe\n")
    assert "byte 17 is not UTF-8" in complaint(str(binary))
    assert "No such file or directory; name a claims file" in complaint(str(tmp_path / "missing.yaml"))
    assert "it is a directory" in complaint(str(tmp_path))
    assert "it is a device" in complaint("/dev/zero")
    assert "are not built in" in complaint("x" * 5000)
    assert "'trio-2062' are not built in (dart, fastv, llava-1.5-flops" in complaint("trio-2062")
