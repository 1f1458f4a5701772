import json
import subprocess
import sys

import pytest

from tests.places import commit_all
from trio_profile.kinds.gate import pytest_plugin

pytest_plugins = "pytester"


@pytest.fixture(autouse=True)
def in_a_process_of_its_own(monkeypatch):
    """pytest-benchmark takes no samples in a worker of xdist; the runs within these tests need them."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)


pytestmark = pytest.mark.filterwarnings("ignore:Not saving anything")

GATED = """
    import time
    import pytest

    now = [0]

    def takes(milliseconds):
        def run():
            now[0] += round(1e6 * milliseconds)
        return run

    @pytest.mark.trio_gate(quantity="run_ms", max_ratio=1.5, pairs=12)
    def test_two(trio_gate, monkeypatch):
        monkeypatch.setattr(time, "perf_counter_ns", lambda: now[0])
        trio_gate(takes({new}), base=takes({base}))
"""
"""Two functions that move a clock of their own: a real one would make the verdict depend on the machine."""
WORKLOAD = """
    import pytest

    @pytest.mark.trio_gate(quantity="prefill_ms")
    def test_toy(trio_gate):
        trio_gate("toy:work", factor={factor})
"""
TOY = """
class work:
    def __init__(self, factor=1.0):
        self.ms = {ms} * factor
        self.exact = {exact}
    def __call__(self):
        return self.ms
"""


def run(pytester, *arguments, **fields):
    return pytester.runpytest_inprocess("--benchmark-json=out.json", "--benchmark-quiet", *arguments, **fields)


def written(pytester) -> dict:
    [benchmark] = json.loads((pytester.path / "out.json").read_text())["benchmarks"]
    return benchmark


@pytest.fixture
def repository(pytester, monkeypatch):
    """A repository whose only commit has a workload of 1 ms that keeps 5."""
    pytester.makepyfile(toy=TOY.format(ms=1.0, exact={"kept": 5}))
    commit_all(pytester.path)
    pytester.makepyfile(test_gate=WORKLOAD.format(factor=2.0))
    # A run in this process keeps what it has imported.
    monkeypatch.syspath_prepend(pytester.path)
    monkeypatch.delitem(sys.modules, "toy", raising=False)
    return pytester


# Two functions of one process


def test_a_function_beside_its_base_passes_and_is_recorded(pytester):
    pytester.makepyfile(GATED.format(base=2, new=2))
    result = run(pytester)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*trio gates*", "pass: run_ms of *test_two is *× [[]*"])
    found = written(pytester)
    gate = found["extra_info"]["trio_gate"]
    assert (gate["quantity"], gate["verdict"], gate["max_ratio"]) == ("run_ms", "pass", 1.5)
    assert gate["ci95"][0] <= gate["ratio"] <= gate["ci95"][1]
    assert len(gate["base_ms"]) == gate["samples"] == len(found["stats"]["data"]) == 12
    assert found["stats"]["median"] == pytest.approx(gate["new"] / 1000)


def test_a_slower_function_fails_in_one_line(pytester):
    pytester.makepyfile(GATED.format(base=5, new=20))
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["regression: run_ms of *test_two is 4.*×*"])
    result.stdout.no_fnmatch_line("*Traceback*")


# Against a revision


def test_without_a_base_it_passes_with_its_numbers_and_says_so(repository):
    result = run(repository)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["no base: prefill_ms of *test_toy is 2.00 ms (12 samples); no base to compare with"])
    gate = written(repository)["extra_info"]["trio_gate"]
    assert (gate["verdict"], gate["base"], gate["new"]) == ("no base", None, 2.0)


REVISIONS = (
    (0.5, {"kept": 5, "launches": 3}, "improved: prefill_ms of *is 0.5*"),
    (
        2.0,
        {"kept": 5},
        "regression: prefill_ms of *is 2.0*, bound 1.03 (60 pairs; *2.00× in 5 pairs of processes)",
    ),
    (1.0, {"kept": 6}, "regression: kept of *went from 5 to 6"),
    (1.0, {}, "trio_gate: the workload toy:work no longer reports its kept*"),
    (5e-324, {"kept": 5}, "trio_gate: prefill_ms of * holds a time of *e-324 ms, which is impossible*"),
    (1.0, {"kept": 10**400}, "trio_gate: kept of * has 1329 bits: at most 63 can be compared"),
)


@pytest.mark.parametrize(
    ("ms", "exact", "says"),
    [case if "went from" in case[2] else pytest.param(*case, marks=pytest.mark.slow) for case in REVISIONS],
)
def test_the_working_tree_is_compared_with_a_revision(repository, ms, exact, says):
    repository.makepyfile(toy=TOY.format(ms=ms, exact=exact))
    result = run(repository, "--trio-gate-base", "HEAD")
    assert result.ret == (not says.startswith("improved"))
    result.stdout.fnmatch_lines([f"*{says}"])
    if not says.startswith("trio_gate"):  # an error ends the test before it writes
        found = written(repository)["extra_info"]
        assert found["trio_gate"]["base_revision"] == "HEAD"
        assert {name: found[name] for name in exact} == exact
    trees = subprocess.run(["git", "worktree", "list"], cwd=repository.path, capture_output=True, text=True, check=True)
    assert len(trees.stdout.splitlines()) == 1


@pytest.mark.slow
def test_a_regression_that_the_other_pairs_of_processes_do_not_show_is_inconclusive(repository):
    biased = TOY.format(ms="(2.0 if first else 1.0)", exact={"kept": 5})
    seen = "import pathlib\nmark = pathlib.Path('mark')\nfirst = not mark.exists()\nmark.touch()\n"
    repository.makepyfile(toy=seen + biased)
    said = "inconclusive: prefill_ms *; 2.00×, 1.00×, 1.00×, 1.00×, 1.00× in 5 pairs of processes); "
    result = run(repository, "--trio-gate-base", "HEAD")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"{said}passes by default (--trio-gate-inconclusive)"])
    (repository.path / "mark").unlink()
    result = run(repository, "--trio-gate-base", "HEAD", "--trio-gate-inconclusive", "fail")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"{said}fails (--trio-gate-inconclusive)"])


def test_an_unknown_revision_ends_the_run_in_one_line(repository):
    result = repository.runpytest_subprocess("--trio-gate-base=HEAD~9")
    assert result.ret == 2
    [line] = [line for line in (*result.stdout.lines, *result.stderr.lines) if "trio_gate" in line]
    assert "names no commit of the repository" in line
    assert "Traceback" not in result.stderr.str() and "passed" not in result.stdout.str()


# Faults of a test and of its marker


def test_a_gate_that_cannot_judge_fails_the_test(pytester):
    bodies = {
        "trio_gate.exact('kv_bytes', 1.5)": "kv_bytes = 1.5 is no whole number",
        "trio_gate.exact('kv_bytes', True)": "kv_bytes = True is no whole number",
        "trio_gate(lambda: None); trio_gate(lambda: None)": "call it once in a test",
        "trio_gate('nonsense:work')": "No module named 'nonsense'",
        "trio_gate.exact('kv_bytes', 2**64)": "kv_bytes has 65 bits: at most 63 can be compared",
        "trio_gate('toy:work', base=lambda: None)": "a workload's base is a revision",
        "pass": "measured nothing",
    }
    tests = [f"def test_{number}(trio_gate):\n    {body}" for number, body in enumerate(bodies)]
    marked = (
        "import pytest\n@pytest.mark.trio_gate(quantity='kv_bytes')\ndef test_x(trio_gate): trio_gate(lambda: None)"
    )
    pytester.makepyfile("\n".join([*tests, marked]))
    result = run(pytester)
    result.assert_outcomes(failed=6, passed=2, errors=5)
    for says in (*bodies.values(), "kv_bytes was never recorded with trio_gate.exact"):
        result.stdout.fnmatch_lines_random([f"*trio_gate*{says}*"])


def test_a_wrong_marker_is_one_line(pytester):
    wrong = {
        "trio_gate(quantity='prefil_ms')": "is none of run_ms, decode_ms, ",
        "trio_gate('prefill_ms')": "by name, not 'prefill_ms'",
        "trio_gate(metric='prefill_ms')": "Extra inputs are not permitted; the marker trio_gate takes quantity",
        "trio_gate(max_ratio=0.97)": "max_ratio = 0.97: Input should be greater than or equal to 1",
        "trio_gate(max_ratio=float('nan'))": "max_ratio = nan",
        "trio_gate(max_ratio='3 %')": "max_ratio = '3 %': Input should be a valid number",
        "trio_gate(pairs=5)": "greater than or equal to 12",
        "trio_gate(precision=0)": "greater than 0",
        "trio_gate(seconds=float('inf'))": "seconds = inf: Input should be a finite number",
    }
    text = "import pytest\n"
    for number, mark in enumerate(wrong):
        text += f"@pytest.mark.{mark}\ndef test_{number}(trio_gate): trio_gate(lambda: None)\n"
    text += "@pytest.mark.trio_gate()\ndef test_unused(): pass\n"
    *items, unused = pytester.getitems(text)
    for item, says in zip(items, wrong.values(), strict=True):
        assert says in (pytest_plugin.fault(item) or "")
    assert "does not ask for the fixture trio_gate" in (pytest_plugin.fault(unused) or "")


def test_a_wrong_marker_ends_the_run(pytester):
    pytester.makepyfile("import pytest\ndef test_a(): pass\n@pytest.mark.trio_gate()\ndef test_x(): pass")
    result = run(pytester)
    assert result.ret == 2 and "test_x: it has the marker" in result.stdout.str()
    assert "passed" not in result.stdout.str()


# Runs without gates


def test_skipped_and_disabled_benchmarks_stay_so(pytester):
    pytester.makepyfile("def test_x(trio_gate): assert trio_gate(lambda: None) is None")
    pytester.runpytest_inprocess("--benchmark-skip").assert_outcomes(skipped=1)
    pytester.runpytest_inprocess("--benchmark-disable").assert_outcomes(passed=1)


def test_an_unused_plugin_imports_nothing_heavy_and_shows_nothing(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        """
        import sys
        def test_x():
            assert "trio_profile.gate.pytest_plugin" in sys.modules
            costly = ("trio_", "torch", "transformers", "numpy", "pydantic")
            mine = {name for name in sys.modules if name.startswith(costly)}
            public = ("trio_profile.gate", "trio_profile.kinds")
            assert all(name.startswith(public) for name in mine - {"trio_profile"}), mine
        """
    )
    result = pytester.runpytest_subprocess("-p", "trio_profile.gate.pytest_plugin")
    result.assert_outcomes(passed=1)
    assert "gate" not in result.stdout.str()


def test_the_time_limit_is_kept(pytester):
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.trio_gate(seconds=1e-9)
        def test_short(trio_gate):
            turns = iter([1.0, 1.0, 1.3, 1.3] * 1000)
            verdict = trio_gate._settle(lambda n: ([1.0], [next(turns)]))[0]
            trio_gate.recorded.add("run_ms")
            assert (verdict.samples, verdict.stopped, verdict.verdict) == (12, "budget", "inconclusive")
        """
    )
    run(pytester).assert_outcomes(passed=1)
