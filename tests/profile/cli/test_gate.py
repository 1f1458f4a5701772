import json
from collections.abc import Sequence

import numpy as np
import pytest

from tests import noise
from tests.profile import command as command_line
from tests.profile.documents import keep
from tests.profile.examples import dense, environment, failed, measurement, session, study, with_pairs
from trio_profile.cli import run
from trio_profile.gate.evidence import _differences
from trio_profile.records.record import VERSION
from trio_profile.records.schema import Measurement
from trio_profile.records.session import FileDigest
from trio_profile.records.store import Store

RETENTIONS = (0.11, 0.55)


def kept_study(directory, *, where=None, cells=None, **fields):
    cells = cells or [measurement("trio", retention) for retention in RETENTIONS]
    return keep(directory, study(retentions=RETENTIONS, **fields), cells, where=where).directory


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
    return command_line.complaint(capsys, "gate", *arguments)


def test_a_study_passes_against_itself_and_the_document_has_the_names_that_scripts_rely_on(tmp_path, capsys):
    base = kept_study(tmp_path / "base")
    code, found = gate(capsys, base, base)
    assert code == 0
    assert (found["format"], found["version"]) == ("trio-profile", VERSION)
    assert found["environment"]["device_name"] == "NVIDIA H200"
    assert found["study"]["model"] == "llava-1.5-7b"
    assert {"quantity", "base", "new", "ratio", "ci95", "verdict"} <= found["verdicts"][0].keys()
    seen = {(v["where"], v["quantity"]): v for v in found["verdicts"]}
    assert seen["trio at 0.11", "prefill_over_dense"]["ratio"] == 1.0
    assert isinstance(seen["dense", "kv_bytes"]["base"], int)
    assert seen["trio at 0.11", "kept_after_layer_15"]["verdict"] == "pass"
    assert {v["verdict"] for v in found["verdicts"] if v["ci95"] is None} == {"pass"}


def test_a_slower_machine_passes_and_a_slower_method_fails(tmp_path, capsys):
    base = kept_study(tmp_path / "base")
    times = ("dense_prefill_ms", "dense_total_ms", "prefill_ms", "total_ms")

    def slower(pair):
        return pair.model_copy(update={name: 1.3 * getattr(pair, name) for name in times})

    cells = [measurement("trio", retention, seed=1) for retention in RETENTIONS]
    throttled = [with_pairs(cell, [slower(pair) for pair in cell.pairs]) for cell in cells]
    code, _ = gate(capsys, base, kept_study(tmp_path / "machine", cells=throttled))
    assert code == 0
    dearer = [measurement("trio", retention, overhead_ms=8.0, seed=1) for retention in RETENTIONS]
    code, found = gate(capsys, base, kept_study(tmp_path / "method", cells=dearer))
    assert code == 1
    worse = {v["quantity"] for v in found["verdicts"] if v["verdict"] == "regression"}
    assert "prefill_over_dense" in worse


@pytest.mark.parametrize("quantity", ["kv_bytes", "fastv_macs"])
def test_one_more_byte_or_mac_fails_unless_the_quantity_is_left_out(tmp_path, capsys, quantity):
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
    printed = capsys.readouterr().out.replace("\\", "")
    assert printed.startswith("## trio-profile gate")
    assert "1 regression, " in printed
    assert f"| regression | {quantity} | trio at 0.55 | " in printed


def test_another_environment_is_refused_unless_it_is_allowed(tmp_path, capsys):
    base = kept_study(tmp_path / "base")
    new = kept_study(tmp_path / "new", where=environment(torch="2.12.0", hostname="another"))
    said = complaint(capsys, base, new)
    assert "torch ('2.11.0' before, '2.12.0' now)" in said and "hostname" not in said
    assert gate(capsys, base, new, "--allow-other-environment")[0] == 0


def several_processes(cell: Measurement, ratios: Sequence[float]) -> Measurement:
    """The cell in several processes. ratios: by which the pruned times of each process differ."""
    timings = [
        with_pairs(cell, [pair.model_copy(update={"prefill_ms": ratio * pair.prefill_ms}) for pair in cell.pairs])
        .timings[0]
        .model_copy(update={"session": f"session {number}"})
        for number, ratio in enumerate(ratios)
    ]
    return cell.model_copy(update={"timings": tuple(timings)})


def test_one_process_a_side_is_inconclusive_and_the_commands_that_would_decide_are_printed(tmp_path, capsys):
    """Eight per cent are far outside both intervals, and within what two processes of the same code differ by."""
    base = kept_study(tmp_path / "base")
    slower = [several_processes(measurement("trio", retention), [1.08]) for retention in RETENTIONS]
    new = kept_study(tmp_path / "new", cells=slower)
    code, found = gate(capsys, base, new, "--quantity", "prefill_over_dense")
    assert code == 0 and {v["verdict"] for v in found["verdicts"]} == {"inconclusive"}
    needed = max(v["processes_needed"] for v in found["verdicts"])
    assert found["commands"] == [
        {
            "side": str(side),
            "code": [environment().commit],
            "command": f"trio-profile sweep --study {side}/study.toml --processes {needed} --out {side}-{needed}",
        }
        for side in (base, new)
    ]
    assert run(["gate", str(base), str(new), "--quantity", "prefill_over_dense"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"--processes {needed}" in printed and "one process on a side" in printed
    assert f"with the code of {environment().commit}:" in printed


def test_several_processes_a_side_decide_what_one_cannot(tmp_path, capsys):
    spread = (0.99, 1.0, 1.01, 1.0, 0.995, 1.005)
    base, new = (
        kept_study(
            tmp_path / str(ratio),
            cells=[several_processes(measurement("trio", at), [ratio * one for one in spread]) for at in RETENTIONS],
        )
        for ratio in (1.0, 1.08)
    )
    code, found = gate(capsys, base, new, "--quantity", "prefill_over_dense")
    assert code == 1 and {(v["verdict"], v["sessions"]) for v in found["verdicts"]} == {("regression", 6)}
    assert gate(capsys, base, base)[0] == 0


def test_a_study_that_lacks_processes_is_refused_with_the_command_that_finishes_it(tmp_path, capsys):
    base = kept_study(tmp_path / "base")
    new = kept_study(tmp_path / "new", processes=4)
    asked = f"--study {new}/study.toml --out {new}`"
    for sides in ((base, new), (new, base)):
        said = complaint(capsys, *sides)
        assert "lacks trio at 0.11 in 3 of its 4 processes" in said and asked in said


def test_studies_of_two_checkpoints_are_refused(tmp_path, capsys):
    def kept(name: str, weights: str):
        opened = session(inputs={"model/weights": FileDigest(bytes=12, sha256=weights)})
        store = Store(tmp_path / name)
        store.open(study(retentions=RETENTIONS), opened)
        for record in (dense(), *(measurement("trio", retention) for retention in RETENTIONS)):
            store.append(record)
        return store.directory

    base, new = kept("base", "a"), kept("new", "b")
    said = complaint(capsys, base, new)
    assert "has changed since" in said and "weights: other content of the same size" in said
    assert "has changed since" in complaint(capsys, base, new, "--allow-other-environment")
    assert gate(capsys, base, kept("same", "a"))[0] == 0


def test_cpu_time_is_judged_where_the_model_ran_on_one_thread_of_a_cpu(tmp_path, capsys):
    def timed(cell: Measurement) -> Measurement:
        return with_pairs(
            cell,
            [
                pair.model_copy(update={"cpu_ms": pair.prefill_ms, "dense_cpu_ms": pair.dense_prefill_ms})
                for pair in cell.pairs
            ],
        )

    def quantities(threads: int) -> set[str]:
        where = environment(device_name="cpu", cpu_threads=threads)
        cells = [timed(measurement("trio", retention)) for retention in RETENTIONS]
        kept = kept_study(tmp_path / str(threads), where=where, cells=cells)
        return {verdict["quantity"] for verdict in gate(capsys, kept, kept)[1]["verdicts"]}

    assert quantities(1) - quantities(2) == {"cpu_over_dense"}


def test_studies_that_cannot_be_compared_are_refused_in_one_line(tmp_path, capsys):
    base = kept_study(tmp_path / "base")
    assert "seed (0 before, 1 now)" in complaint(capsys, base, kept_study(tmp_path / "seed", seed=1))
    cells = [measurement("trio", 0.11), failed("trio", 0.55)]
    broken = kept_study(tmp_path / "failed", cells=cells)
    assert "trio at 0.55 failed" in complaint(capsys, base, broken)
    half = kept_study(tmp_path / "half", cells=cells[:1])
    assert "lacks trio at 0.55" in complaint(capsys, base, half)
    assert "lacks trio at 0.55" in complaint(capsys, half, base)
    other = tmp_path / "other"
    Store(other).open(study(retentions=(0.11,)), session())
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


def test_a_cell_that_failed_in_the_base_is_named_and_not_compared(tmp_path, capsys):
    base = kept_study(tmp_path / "base", cells=[measurement("trio", 0.11), failed("trio", 0.55)])
    assert run(["gate", str(base), str(kept_study(tmp_path / "new"))]) == 0
    assert "warning: trio at 0.55 failed" in capsys.readouterr().err


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


def test_interleaved_ratios_are_preferred_to_raw_times(tmp_path, capsys):
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
def test_a_file_that_holds_no_benchmarks_is_refused_in_one_line(tmp_path, capsys, content, says):
    bad = tmp_path / "bad.json"
    bad.write_text(content)
    assert says in complaint(capsys, benchmark_file(tmp_path / "a.json"), bad)
    assert says in complaint(capsys, bad, bad)


def test_files_that_cannot_be_compared_are_refused_in_one_line(tmp_path, capsys):
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


def test_a_field_that_an_old_study_does_not_know_is_no_difference():
    assert _differences({"wait_policy": "", "torch": "2"}, {"wait_policy": "passive", "torch": "2"}) == []
    assert _differences({"wait_policy": "active"}, {"wait_policy": "passive"}) != []
    assert _differences({"cuda": None}, {"cuda": "12.8"}) != []
