import json
import re

import numpy as np

from tests import noise
from tests.profile import command as command_line
from tests.profile.documents import keep
from tests.profile.examples import (
    counted,
    environment,
    failed,
    in_processes,
    measurement,
    slowed,
    study,
    with_cpu_times,
)
from trio_profile.cli import run
from trio_profile.records.record import VERSION
from trio_profile.records.schema import FileDigest, Measurement

RETENTIONS = (0.11, 0.55)


def kept_study(directory, *, where=None, cells=None, inputs=None, **fields):
    asked = study(**{"retentions": RETENTIONS, **fields})
    return keep(directory, asked, cells or swept(), where=where, inputs=inputs or {}).directory


def swept(processes: int = 4, *, slower: float = 1.0, **fields) -> list[Measurement]:
    """A cell at each retention. slower: the factor of its runs. fields: further arguments of `measurement`."""
    cells = [measurement("trio", retention, **{"pairs": 12, **fields}) for retention in RETENTIONS]
    return [in_processes(slowed(cell, slower), processes) for cell in cells]


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
    return code, json.loads(capsys.readouterr().out)


def regressions(found) -> list[str]:
    return [verdict["quantity"] for verdict in found["verdicts"] if verdict["verdict"] == "regression"]


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
    throttled = [slowed(cell, 1.3, dense=1.3) for cell in swept(seed=1)]
    assert gate(capsys, base, kept_study(tmp_path / "machine", cells=throttled))[0] == 0
    dearer = kept_study(tmp_path / "method", cells=swept(overhead_ms=8.0, seed=1))
    code, found = gate(capsys, base, dearer)
    assert code == 1 and "prefill_over_dense" in regressions(found)


def test_one_more_byte_fails_unless_the_quantity_is_left_out(tmp_path, capsys):
    base = kept_study(tmp_path / "base")
    cells = swept()
    cells[1] = cells[1].model_copy(update={"kv_bytes": cells[1].kv_bytes + 1})
    new = kept_study(tmp_path / "new", cells=cells)
    code, found = gate(capsys, base, new)
    assert code == 1
    (worse,) = [v for v in found["verdicts"] if v["verdict"] == "regression"]
    assert (worse["where"], worse["quantity"]) == ("trio at 0.55", "kv_bytes")
    assert gate(capsys, base, new, "--quantity", "counted_macs")[0] == 0
    assert run(["gate", str(base), str(new), "--markdown"]) == 1
    printed = capsys.readouterr().out.replace("\\", "")
    assert printed.startswith("## trio-profile gate")
    assert ", 1 regression (kv_bytes of trio" in printed
    assert "| regression | kv_bytes | trio at 0.55 | " in printed


def test_another_environment_is_refused_unless_it_is_allowed(tmp_path, capsys):
    base = kept_study(tmp_path / "base")
    new = kept_study(tmp_path / "new", where=environment(torch="2.12.0", hostname="another"))
    said = complaint(capsys, base, new)
    assert "torch ('2.11.0' before, '2.12.0' now)" in said and "hostname" not in said
    assert gate(capsys, base, new, "--allow-other-environment")[0] == 0


def test_the_times_of_one_process_are_refused_and_its_counts_are_judged(tmp_path, capsys):
    base = kept_study(tmp_path / "base", cells=swept(1))
    new = kept_study(tmp_path / "new", cells=swept(1, slower=8))
    for sides in ((base, new), (base, kept_study(tmp_path / "many", cells=swept(4)))):
        said = complaint(capsys, *sides)
        assert "one process" in said and "--processes 8" in said and "--counts" in said
        assert gate(capsys, *sides, "--counts")[0] == 0
    assert "'total_over_dense' is not in" in complaint(capsys, base, new, "--counts", "--quantity", "total_over_dense")


def test_the_default_of_an_inconclusive_verdict_is_said_and_can_be_changed(tmp_path, capsys):
    base, new = benchmark_file(tmp_path / "a.json"), benchmark_file(tmp_path / "b.json", slower=1.03, seed=1)
    code, found = gate(capsys, base, new, "--quantity", "run_ms")
    assert (code, found["inconclusive"], [v["verdict"] for v in found["verdicts"]]) == (0, "pass", ["inconclusive"])
    for given, code, says in (
        ([], 0, "; passes by default (--inconclusive)"),
        (["--inconclusive", "fail"], 1, "; fails (--inconclusive)"),
    ):
        assert run(["gate", str(base), str(new), "--markdown", *given]) == code
        assert says in capsys.readouterr().out.replace("\\", "")


def test_a_printed_interval_shows_on_which_side_of_the_bound_it_lies(tmp_path, capsys):
    base, new = benchmark_file(tmp_path / "a.json"), benchmark_file(tmp_path / "b.json", slower=1.2, seed=1)
    low, high = gate(capsys, base, new, "--quantity", "run_ms")[1]["verdicts"][0]["ci95"]
    for bound, verdict in ((low - 1e-3, "regression"), (high + 1e-3, "pass")):
        run(["gate", str(base), str(new), "--quantity", "run_ms", "--max-ratio", str(bound), "--markdown"])
        printed = capsys.readouterr().out.replace("\\", "")
        ends = re.search(r"\[([\d.]+), ([\d.]+)\], bound", printed)
        assert verdict in printed and ends is not None
        assert not float(ends[1]) <= bound <= float(ends[2])


def test_studies_of_two_checkpoints_are_refused(tmp_path, capsys):
    def kept(name: str, weights: str):
        return kept_study(tmp_path / name, inputs={"model/weights": FileDigest(bytes=12, sha256=weights)})

    base, new = kept("base", "a"), kept("new", "b")
    said = complaint(capsys, base, new)
    assert "has changed since" in said and "(weights)" in said
    assert "has changed since" in complaint(capsys, base, new, "--allow-other-environment")
    assert gate(capsys, base, kept("same", "a"))[0] == 0


def test_cpu_time_is_judged_where_the_model_ran_on_one_thread_of_a_cpu(tmp_path, capsys):
    def quantities(threads: int) -> set[str]:
        where = environment(device_name="cpu", cpu_threads=threads)
        cells = [with_cpu_times(cell, threads) for cell in swept()]
        kept = kept_study(tmp_path / str(threads), where=where, cells=cells)
        return {verdict["quantity"] for verdict in gate(capsys, kept, kept)[1]["verdicts"]}

    assert quantities(1) - quantities(2) == {"cpu_over_dense"}


def test_studies_that_cannot_be_compared_are_refused_in_one_line(tmp_path, capsys):
    base = kept_study(tmp_path / "base")
    assert "seed (0 before, 1 now)" in complaint(capsys, base, kept_study(tmp_path / "seed", seed=1))
    low, high = swept()
    broken = kept_study(tmp_path / "failed", cells=[low, failed("trio", 0.55)])
    assert "trio at 0.55 failed" in complaint(capsys, base, broken)
    half = kept_study(tmp_path / "half", cells=[low])
    assert "lacks the times of trio at 0.55" in complaint(capsys, base, half)
    assert "lacks the times of trio at 0.55" in complaint(capsys, half, base)
    untimed = kept_study(tmp_path / "untimed", cells=[low, counted(high)])
    said = complaint(capsys, base, untimed)
    assert "lacks the times of trio at 0.55" in said and f"--study {untimed}/study.toml --out {untimed}`" in said
    other = kept_study(tmp_path / "other", retentions=(0.11,), cells=[low])
    assert "lacks trio at 0.55: measure all" in complaint(capsys, base, other)
    assert gate(capsys, other, base)[0] == 0
    assert "'prefil_ms' is not in" in complaint(capsys, base, base, "--quantity", "prefil_ms")
    assert "no bound" in complaint(capsys, base, base, "--max-ratio", "0.5")
    assert "cannot be read" in complaint(capsys, base, tmp_path / "nothing")
    assert "holds no measurements.jsonl" in complaint(capsys, base, tmp_path)
    file = benchmark_file(tmp_path / "b.json")
    assert "name two of one kind" in complaint(capsys, base, file)


def test_a_cell_that_failed_in_the_base_is_named_and_not_compared(tmp_path, capsys):
    base = kept_study(tmp_path / "base", cells=[swept()[0], failed("trio", 0.55)])
    assert run(["gate", str(base), str(kept_study(tmp_path / "new"))]) == 0
    assert "warning: trio at 0.55 failed" in capsys.readouterr().err


def test_two_files_of_the_same_code_pass_and_fail_on_time_and_on_counts(tmp_path, capsys):
    base, new = benchmark_file(tmp_path / "a.json"), benchmark_file(tmp_path / "b.json", seed=1)
    code, found = gate(capsys, base, new)
    assert code == 0
    assert {v["quantity"]: v["verdict"] for v in found["verdicts"]} == {"kv_bytes": "pass", "run_ms": "pass"}
    assert found["environment"]["machine"] == "x86_64"
    assert run(["gate", str(base), str(new)]) == 0
    assert "run_ms: not interleaved" in capsys.readouterr().out
    assert gate(capsys, base, benchmark_file(tmp_path / "b.json", slower=1.1, seed=1))[0] == 1
    code, found = gate(capsys, base, benchmark_file(tmp_path / "c.json", extra={"kv_bytes": 4097}))
    assert (code, regressions(found)) == (1, ["kv_bytes"])


def test_a_file_that_holds_no_benchmarks_is_refused_in_one_line(tmp_path, capsys):
    bad, good = tmp_path / "bad.json", benchmark_file(tmp_path / "a.json")
    one = '{"machine_info": {}, "benchmarks": [{"fullname": "x", "extra_info": {}, "stats": STATS}]}'
    for content, says in (
        ("", "empty"),
        ("{", "not JSON"),
        ("[]", "no pytest-benchmark file"),
        ('{"machine_info": {}, "benchmarks": []}', "benchmarks: list should have at least 1"),
        (one.replace("STATS", '{"median": NaN}'), "NaN"),
        (one.replace("STATS", "null"), "stats"),
        (one.replace("STATS", '{"median": 1, "rounds": 6}'), "--benchmark-save-data"),
    ):
        bad.write_text(content)
        assert says in complaint(capsys, good, bad) and says in complaint(capsys, bad, bad)


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
    timed = benchmark_file(tmp_path / "c.json", extra={"run_ms": 3})
    timed.write_text(timed.read_text().replace('"data"', '"none"'))
    assert "exact and samples" in complaint(capsys, timed, other(extra={}))


def test_the_processor_of_an_older_file_is_known(tmp_path, capsys):
    """It has `brand` where a file of today has `brand_raw`."""
    new = benchmark_file(tmp_path / "new.json")

    def older(cpu: str):
        path = benchmark_file(tmp_path / "old.json", cpu=cpu)
        path.write_text(path.read_text().replace('"brand_raw"', '"brand"'))
        return path

    assert gate(capsys, older("EPYC"), new)[0] == gate(capsys, new, older("EPYC"))[0] == 0
    assert gate(capsys, older("EPYC"), older("EPYC"))[0] == 0
    assert "cpu ('Xeon' before, 'EPYC' now)" in complaint(capsys, older("Xeon"), new)
    assert "cpu ('EPYC' before, 'Xeon' now)" in complaint(capsys, new, older("Xeon"))
