import json

import numpy as np
import pytest

from tests.profile.examples import dense, environment, failed, measurement, study
from trio_profile.cli import run
from trio_profile.errors import MeasurementError
from trio_profile.gate.verdict import Samples, Summary, decide, judge, judge_exact, judge_pairs, settle
from trio_profile.records.store import Store
from trio_profile.stats import noise

RETENTIONS = (0.11, 0.55)


def kept_study(directory, *, where=None, cells=None, **fields):
    store = Store(directory)
    store.open(study(retentions=RETENTIONS, **fields), where or environment())
    store.append(dense())
    for cell in cells or [measurement("trio", retention) for retention in RETENTIONS]:
        store.append(cell)
    return directory


def benchmark_file(path, *, slower=1.0, n=40, seed=0, extra=None, cpu="EPYC", name="test_a.py::test_x", **stats):
    data = list(0.01 * slower * noise.steady(np.random.default_rng(seed), n))
    benchmark = {
        "fullname": name,
        "extra_info": {"kv_bytes": 4096, "yes": True} if extra is None else extra,
        "stats": {"median": float(np.median(data)), "rounds": n, "data": data, **stats},
    }
    machine = {
        "machine": "x86_64",
        "system": "Linux",
        "python_version": "3.11.9",
        "cpu": {"brand_raw": cpu, "count": 2},
    }
    path.write_text(json.dumps({"machine_info": machine, "benchmarks": [benchmark], "version": "5.3.1"}))
    return path


def gate(capsys, *arguments):
    """Exit code and the document of `gate --json`."""
    code = run(["gate", *map(str, arguments), "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out)


def complaint(capsys, *arguments) -> str:
    assert run(["gate", *map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


# The verdicts


@pytest.mark.parametrize(
    ("interval", "says"),
    [
        ((1.04, 1.06), "regression"),
        ((1.02, 1.06), "inconclusive"),
        ((0.98, 1.02), "pass"),
        ((0.98, 1.03), "inconclusive"),
        ((0.90, 0.95), "improved"),
    ],
)
def test_an_interval_lies_beyond_within_or_across_the_bound(interval, says):
    assert decide(interval, interval, 1.03) == says


def test_a_regression_must_be_surer_than_what_is_printed():
    assert decide((1.035, 1.06), (1.02, 1.08), 1.03) == "inconclusive"


@pytest.mark.parametrize(
    ("base", "new", "says", "ratio"),
    [(10, 11, "regression", 1.1), (10, 10, "pass", 1.0), (10, 9, "improved", 0.9), (0, 1, "regression", None)],
)
def test_exact_quantities_fail_on_any_growth(base, new, says, ratio):
    verdict = judge_exact("kv_bytes", "here", base, new)
    assert (verdict.verdict, verdict.ratio) == (says, ratio)


@pytest.mark.parametrize(("ratio", "says"), [(1.0, "pass"), (1.10, "regression"), (0.8, "improved")])
@pytest.mark.parametrize("model", noise.MODELS)
def test_pairs_under_every_noise(model, ratio, says):
    base, new = noise.pairs(np.random.default_rng(1), model, 150, ratio)
    verdict = judge_pairs("prefill_ms", "here", list(base), list(new))
    assert verdict.verdict == says
    assert verdict.ci95 is not None and verdict.ratio is not None
    assert verdict.ci95[0] <= verdict.ratio <= verdict.ci95[1]


@pytest.mark.parametrize(
    ("base", "new", "says"),
    [
        ([1.0] * 5, [1.0] * 5, "5 samples: a verdict needs 6"),
        ([1.0] * 6, [1.0] * 7, "no pairs"),
        ([1.0] * 6, [1.0] * 5 + [float("nan")], "nan"),
        ([1.0] * 6, [0.0] * 6, "no clock"),
        ([-1.0] * 6, [1.0] * 6, "no clock"),
    ],
)
def test_what_cannot_bear_a_verdict_is_refused(base, new, says):
    with pytest.raises(MeasurementError, match=says) as caught:
        judge_pairs("prefill_ms", "here", base, new)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bound", [float("nan"), 0.97, 0.0, float("inf"), 30.0])
def test_a_bound_that_bounds_nothing_is_refused(bound):
    with pytest.raises(MeasurementError, match="no bound"):
        judge_pairs("prefill_ms", "here", [1.0] * 6, [1.0] * 6, bound)


def test_sides_of_unlike_kinds_are_refused():
    with pytest.raises(MeasurementError, match="exact and samples"):
        judge("kv_bytes", "here", 5, Samples((1.0,) * 6, interleaved=True))


def test_samples_that_were_not_interleaved_say_so():
    steady = noise.steady(np.random.default_rng(0), 60)
    apart = judge("run_ms", "here", Samples(tuple(steady), False), Samples(tuple(1.2 * steady), False))
    assert apart.verdict == "regression"
    assert apart.note is not None and "not interleaved" in apart.note
    assert judge("x", "here", Samples(tuple(steady), True), Samples(tuple(steady), True)).note is None


def test_many_samples_are_judged_in_stretches():
    many = tuple(noise.heavy_tailed(np.random.default_rng(0), 100_000))
    assert judge("run_ms", "here", Samples(many, False), Samples(many[::-1], False)).verdict == "pass"


@pytest.mark.parametrize(("new", "says"), [(0.80, "pass"), (0.88, "regression"), (0.70, "improved")])
def test_kept_ratios_are_compared_by_their_intervals(new, says):
    def around(median):
        return Summary(median, (0.99 * median, 1.01 * median), 15)

    verdict = judge("trio_over_random", "here", around(0.8), around(new))
    assert verdict.verdict == says
    assert verdict.ci95 is not None
    assert verdict.ci95[1] / (new / 0.8) == pytest.approx(1 + 0.01 * 2**0.5, rel=1e-3)


# Sampling until there is one


def sampler(model, ratio, seed=0, most=192):
    base, new = noise.pairs(np.random.default_rng(seed), model, most, ratio)
    taken = 0

    def sample(n):
        nonlocal taken
        taken += n
        return list(base[taken - n : taken]), list(new[taken - n : taken])

    return sample


def test_sampling_stops_when_the_interval_is_narrow():
    verdict = settle(sampler("steady", 1.0), "prefill_ms", "here")
    assert (verdict.verdict, verdict.stopped) == ("pass", "converged")
    assert verdict.samples < 192


def test_what_stays_inconclusive_is_neutral_and_says_so():
    verdict = settle(sampler("steady", 1.03, most=96), "prefill_ms", "here", most=96)
    assert (verdict.verdict, verdict.stopped, verdict.samples) == ("inconclusive", "budget", 96)
    assert verdict.note == "still so after 96 pairs: neutral"


def test_a_small_limit_is_kept():
    assert settle(sampler("bimodal", 1.0), "prefill_ms", "here", most=7).samples == 7


# Two studies


def test_a_study_passes_against_itself_and_the_document_has_the_names_that_scripts_rely_on(tmp_path, capsys):
    base = kept_study(tmp_path / "base")
    code, found = gate(capsys, base, base)
    assert code == 0
    assert (found["format"], found["version"]) == ("trio-profile", 1)
    assert found["environment"]["device_name"] == "NVIDIA H200"
    assert found["study"]["model"] == "llava-1.5-7b"
    assert {"quantity", "base", "new", "ratio", "ci95", "verdict"} <= found["verdicts"][0].keys()
    seen = {(v["where"], v["quantity"]): v for v in found["verdicts"]}
    assert seen["trio at 0.11", "prefill_over_dense"]["ratio"] == 1.0
    assert isinstance(seen["dense", "kv_bytes"]["base"], int)
    assert seen["trio at 0.11", "kept_after_layer_15"]["verdict"] == "pass"
    assert {v["verdict"] for v in found["verdicts"] if v["ci95"] is None} == {"pass"}


def test_the_machine_cancels_and_the_method_does_not(tmp_path, capsys):
    base = kept_study(tmp_path / "base")
    times = ("dense_prefill_ms", "dense_total_ms", "prefill_ms", "total_ms")

    def slower(pair):
        return pair.model_copy(update={name: 1.3 * getattr(pair, name) for name in times})

    cells = [measurement("trio", retention, seed=1) for retention in RETENTIONS]
    slower = [cell.model_copy(update={"pairs": tuple(map(slower, cell.pairs))}) for cell in cells]
    code, _ = gate(capsys, base, kept_study(tmp_path / "machine", cells=slower))
    assert code == 0
    dearer = [measurement("trio", retention, overhead_ms=8.0, seed=1) for retention in RETENTIONS]
    code, found = gate(capsys, base, kept_study(tmp_path / "method", cells=dearer))
    assert code == 1
    worse = {v["quantity"] for v in found["verdicts"] if v["verdict"] == "regression"}
    assert "prefill_over_dense" in worse


@pytest.mark.parametrize("quantity", ["kv_bytes", "fastv_macs"])
def test_one_more_byte_or_mac_fails_and_may_be_left_out(tmp_path, capsys, quantity):
    base = kept_study(tmp_path / "base")
    cells = [measurement("trio", retention) for retention in RETENTIONS]
    cells[1] = cells[1].model_copy(update={quantity: getattr(cells[1], quantity) + 1})
    new = kept_study(tmp_path / "new", cells=cells)
    code, found = gate(capsys, base, new)
    assert code == 1
    assert [(v["where"], v["quantity"]) for v in found["verdicts"] if v["verdict"] == "regression"] == [
        ("trio at 0.55", quantity)
    ]
    assert gate(capsys, base, new, "--quantity", "counted_macs")[0] == 0
    assert run(["gate", str(base), str(new)]) == 1
    assert "regression" in capsys.readouterr().out
    assert run(["gate", str(base), str(new), "--markdown"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("**trio-profile gate:** 1 regression, ")
    assert lines[4].startswith(f"| **regression** | {quantity} | trio at 0.55 | ")


def test_another_environment_is_refused_unless_told(tmp_path, capsys):
    base = kept_study(tmp_path / "base")
    new = kept_study(tmp_path / "new", where=environment(torch="2.12.0", hostname="another"))
    said = complaint(capsys, base, new)
    assert "torch ('2.11.0' before, '2.12.0' now)" in said and "hostname" not in said
    assert gate(capsys, base, new, "--allow-other-environment")[0] == 0


def test_studies_that_cannot_be_compared_are_one_line(tmp_path, capsys):
    base = kept_study(tmp_path / "base")
    assert "seed (0 before, 1 now)" in complaint(capsys, base, kept_study(tmp_path / "seed", seed=1))
    cells = [measurement("trio", 0.11), failed("trio", 0.55)]
    broken = kept_study(tmp_path / "failed", cells=cells)
    assert "trio at 0.55 failed" in complaint(capsys, base, broken)
    half = kept_study(tmp_path / "half", cells=cells[:1])
    assert "lacks trio at 0.55" in complaint(capsys, base, half)
    assert "lacks trio at 0.55" in complaint(capsys, half, base)
    other = tmp_path / "other"
    Store(other).open(study(retentions=(0.11,)), environment())
    Store(other).append(dense())
    Store(other).append(cells[0])
    assert "lacks trio at 0.55: measure all" in complaint(capsys, base, other)
    assert gate(capsys, other, base)[0] == 0
    few = kept_study(tmp_path / "few", cells=[measurement("trio", retention, pairs=5) for retention in RETENTIONS])
    assert "5 samples: a verdict needs 6" in complaint(capsys, base, few)
    assert "'prefil_ms' is not in" in complaint(capsys, base, base, "--quantity", "prefil_ms")
    assert "no bound" in complaint(capsys, base, base, "--max-ratio", "0.5")
    assert "cannot be read" in complaint(capsys, base, tmp_path / "nothing")
    assert "holds no measurements.jsonl" in complaint(capsys, base, tmp_path)
    file = benchmark_file(tmp_path / "b.json")
    assert "name two of one kind" in complaint(capsys, base, file)


def test_a_cell_that_failed_before_is_no_base_and_is_said(tmp_path, capsys):
    base = kept_study(tmp_path / "base", cells=[measurement("trio", 0.11), failed("trio", 0.55)])
    assert run(["gate", str(base), str(kept_study(tmp_path / "new"))]) == 0
    assert "warning: trio at 0.55 failed" in capsys.readouterr().err


# Two files of pytest-benchmark


def test_two_files_of_the_same_code_pass(tmp_path, capsys):
    base, new = benchmark_file(tmp_path / "a.json"), benchmark_file(tmp_path / "b.json", seed=1)
    code, found = gate(capsys, base, new)
    assert code == 0
    assert {v["quantity"]: v["verdict"] for v in found["verdicts"]} == {"kv_bytes": "pass", "run_ms": "pass"}
    assert found["environment"]["machine"] == "x86_64"
    assert run(["gate", str(base), str(new)]) == 0
    assert "run_ms: not interleaved" in capsys.readouterr().out


def test_two_files_fail_on_time_and_on_counts(tmp_path, capsys):
    base = benchmark_file(tmp_path / "a.json")
    assert gate(capsys, base, benchmark_file(tmp_path / "b.json", slower=1.1, seed=1))[0] == 1
    code, found = gate(capsys, base, benchmark_file(tmp_path / "c.json", extra={"kv_bytes": 4097}))
    assert code == 1
    assert [v["quantity"] for v in found["verdicts"] if v["verdict"] == "regression"] == ["kv_bytes"]


def test_interleaved_ratios_are_believed_before_raw_times(tmp_path, capsys):
    def with_ratio(median):
        return {"over_base": {"median": median, "ci95": [0.99 * median, 1.01 * median], "samples": 15}}

    base = benchmark_file(tmp_path / "a.json", extra=with_ratio(1.0))
    slower_machine = benchmark_file(tmp_path / "b.json", slower=1.3, extra=with_ratio(1.0))
    code, found = gate(capsys, base, slower_machine)
    assert code == 0
    assert [v["quantity"] for v in found["verdicts"]] == ["over_base"]
    assert gate(capsys, base, slower_machine, "--quantity", "run_ms")[0] == 1
    assert gate(capsys, base, benchmark_file(tmp_path / "c.json", extra=with_ratio(1.1)))[0] == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "empty"),
        ("{", "not JSON"),
        ("[]", "no pytest-benchmark file"),
        ('{"machine_info": {}, "benchmarks": []}', "benchmarks: list should have at least 1"),
        ('{"machine_info": {}, "benchmarks": [{"fullname": "x", "extra_info": {}, "stats": {"median": NaN}}]}', "NaN"),
        ('{"machine_info": {}, "benchmarks": [{"fullname": "x", "extra_info": {}, "stats": null}]}', "stats"),
        (
            '{"machine_info": {}, "benchmarks": [{"fullname": "x", "extra_info": {}, "stats": {"median": 1, "rounds": '
            "6}}]}",
            "--benchmark-save-data",
        ),
    ],
)
def test_a_file_that_is_none_is_one_line(tmp_path, capsys, content, says):
    bad = tmp_path / "bad.json"
    bad.write_text(content)
    assert says in complaint(capsys, benchmark_file(tmp_path / "a.json"), bad)
    assert says in complaint(capsys, bad, bad)


def test_files_that_cannot_be_compared_are_one_line(tmp_path, capsys):
    base = benchmark_file(tmp_path / "a.json")

    def other(**fields):
        return benchmark_file(tmp_path / "b.json", **fields)

    assert "it was edited" in complaint(capsys, base, other(median=0.009))
    assert "it was edited" in complaint(capsys, base, other(rounds=39))
    assert "5 samples" in complaint(capsys, base, other(n=5))
    assert "cpu ('EPYC' before, 'Xeon' now)" in complaint(capsys, base, other(cpu="Xeon"))
    assert gate(capsys, base, other(cpu="Xeon"), "--allow-other-environment")[0] == 0
    assert "lacks kv_bytes of test_a.py::test_x" in complaint(capsys, base, other(extra={}))
    assert "lacks test_a.py::test_x" in complaint(capsys, base, other(name="test_a.py::test_y"))
    assert "exact and summary" in complaint(
        capsys, base, other(extra={"kv_bytes": {"median": 1.0, "ci95": [0.9, 1.1], "samples": 9}})
    )
    assert "over_base of" in complaint(
        capsys, base, other(extra={"over_base": {"median": 1.0, "ci95": "wide", "samples": 9}})
    )
