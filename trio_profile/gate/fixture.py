"""The fixture `trio_gate`: it times a test's workload beside its base and fails the test on a regression.

The rest of the package is imported when a gate is called, because the plugin is loaded into every pytest run.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from trio_profile.gate.marker import LEAST_PAIRS, exact, timed

if TYPE_CHECKING:
    from trio_profile.gate.rivals import Sampler
    from trio_profile.gate.verdict import Times, Verdict

VERDICTS = pytest.StashKey[list["Verdict"]]()
"""All verdicts of the run, for its summary."""
TREES = pytest.StashKey[ExitStack]()
"""Removes the base's directory when it is closed."""
_BASE_TREE = pytest.StashKey[Path]()


class Gate:
    """The fixture `trio_gate` of one test. It fails the test on a regression only.

    Call it with a workload, "module:function", and the workload's arguments. With --trio-gate-base the workload is
    timed in both revisions in turn. Or call it with a function, and with another one as `base`; the two are timed in
    turn in this process. Without a base the test passes with the verdict "no base". An inconclusive verdict passes too.

    The numbers are written to the benchmark's `extra_info["trio_gate"]`, and the new times to its `stats`.

    config: of the pytest run.
    where: name of the test, for messages.
    benchmark: the fixture of pytest-benchmark.
    asked: the marker's arguments.
    """

    def __init__(self, config: pytest.Config, where: str, benchmark: Any, asked: dict[str, Any]):
        self.config, self.where, self.benchmark = config, where, benchmark
        self.quantity: str = asked.get("quantity", "run_ms")
        self.timed = self.quantity if self.quantity in timed() else "run_ms"
        self.max_ratio = float(asked.get("max_ratio", 1.03))
        self.precision = float(asked.get("precision", 0.01))
        self.pairs, self.seconds = int(asked.get("pairs", 192)), float(asked.get("seconds", 120.0))
        self.called = False
        self.recorded: set[str] = set()

    def __call__(
        self,
        run: str | Callable[[], object] = "trio_profile.gate.rivals:prefill",
        *,
        base: Callable[[], object] | None = None,
        **arguments: Any,
    ) -> "Verdict | None":
        """Time the workload or function and judge it.

        Returns the verdict on the marker's quantity; None if benchmarks are disabled. Fails the test on a regression,
        and on anything that cannot be judged.
        """
        from trio_profile.errors import ProfileError

        if self.called:
            pytest.fail("trio_gate: call it once in a test, because its benchmark records one run", pytrace=False)
        self.called = True
        self.recorded.add(self.timed)
        if self.benchmark.disabled:
            if self.config.getoption("trio_gate_base") is not None:
                pytest.fail("trio_gate: a base was named, but benchmarks are disabled", pytrace=False)
            self._load(run, arguments)()
            return None
        try:
            verdicts = self._judge(run, base, arguments)
        except ProfileError as error:
            pytest.fail(f"trio_gate: {error}", pytrace=False)
        self.config.stash[VERDICTS] += verdicts
        from trio_profile.gate.verdict import sentence

        if failed := [verdict for verdict in verdicts if verdict.verdict == "regression"]:
            pytest.fail("\n".join(sentence(verdict) for verdict in failed), pytrace=False)
        return verdicts[0]

    def exact(self, name: str, value: int) -> None:
        """Record a whole number that must never grow. `trio-profile gate` compares it with another file's."""
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            pytest.fail(f"trio_gate: {name} = {value!r} is no whole number", pytrace=False)
        self.recorded.add(name)
        self.benchmark.extra_info[name] = int(value)

    def finish(self) -> None:
        """Fail the test if it measured nothing."""
        if not self.recorded:
            pytest.fail("trio_gate measured nothing: call it, or its `exact`, or do not ask for it", pytrace=False)
        if self.quantity in exact() and self.quantity not in self.recorded:
            pytest.fail(f"trio_gate: {self.quantity} was never recorded with trio_gate.exact", pytrace=False)

    def _judge(
        self, run: str | Callable[[], object], base: Callable[[], object] | None, arguments: dict[str, Any]
    ) -> list["Verdict"]:
        from trio_profile.gate.rivals import WARMUPS, in_turn

        revision = self.config.getoption("trio_gate_base")
        if base is not None:
            if isinstance(run, str):
                pytest.fail("trio_gate: a workload's base is a revision, --trio-gate-base", pytrace=False)
            is_cpu = self.timed == "cpu_ms"
            sample = in_turn(_clocked(base, cpu=is_cpu), _clocked(run, cpu=is_cpu))
            sample(WARMUPS)
            return [self._record(*self._settle(sample))]
        if revision is None:
            return self._without_base(self._load(run, arguments))
        if not isinstance(run, str):
            pytest.fail(
                "trio_gate: a function of this process cannot be run in another revision; name a workload, "
                "'module:function', or pass another function as base",
                pytrace=False,
            )
        return self._compare_trees(self._base_tree(revision), run, arguments)

    def _compare_trees(self, base: Path, run: str, arguments: dict[str, Any]) -> list["Verdict"]:
        """The verdicts on a workload in two trees: on its time, and on each of its exact numbers."""
        from trio_profile.errors import MeasurementError
        from trio_profile.gate.rivals import Rivals
        from trio_profile.gate.verdict import judge_exact, settle_twice

        clock = "cpu_ms" if self.timed == "cpu_ms" else "ms"
        exact: list[Verdict] = []

        def settle_once(number: int, earlier: "Times") -> tuple["Verdict", "Times"]:
            with Rivals(base, self.config.rootpath, run, arguments, seed=number, time=clock) as rivals:
                before, after = (rivals.workers[name].exact for name in ("base", "new"))
                if lost := sorted(before.keys() - after.keys()):
                    raise MeasurementError(f"the workload {run} no longer reports its {lost[0]}, which the base's does")
                exact[:] = [judge_exact(name, self.where, before[name], after[name]) for name in before]
                self.benchmark.extra_info.update(after)
                return self._settle(rivals.sample, earlier)

        timed = settle_twice(settle_once, self.max_ratio)
        return [self._record(*timed), *exact]

    def _settle(self, run_pairs: "Sampler", earlier: "Times" = ((), ())) -> tuple["Verdict", "Times"]:
        """The verdict, and the times that it is based on."""
        from trio_profile.gate.verdict import settle

        deadline, taken = time.monotonic() + self.seconds, 0

        def sample(pairs: int) -> "Times":
            nonlocal taken
            times: tuple[list[float], list[float]] = [], []
            while len(times[0]) < pairs and (taken < LEAST_PAIRS or time.monotonic() < deadline):
                for side, more in zip(times, run_pairs(1), strict=True):
                    side += more
                taken += 1
            return times

        return settle(
            sample,
            self.timed,
            self.where,
            max_ratio=self.max_ratio,
            precision=self.precision,
            least=LEAST_PAIRS,
            most=self.pairs,
            earlier=earlier,
        )

    def _without_base(self, run: Callable[[], float]) -> list["Verdict"]:
        """The verdict "no base", with the times of this tree."""
        from trio_profile.gate.verdict import Verdict
        from trio_profile.stats.intervals import median, median_interval

        run()
        times = [run() for _ in range(LEAST_PAIRS)]
        verdict = Verdict(
            quantity=self.timed,
            where=self.where,
            base=None,
            new=median(times),
            ratio=None,
            ci95=None,
            verdict="no base",
            samples=len(times),
        )
        self._record(verdict, ((), times))
        self.benchmark.extra_info["trio_gate"]["new_ci95"] = list(median_interval(times))
        return [verdict]

    def _record(self, verdict: "Verdict", times: "Times") -> "Verdict":
        """Write the verdict and its times in milliseconds into the benchmark, and return the verdict."""
        base_ms, new_ms = times
        # pytest-benchmark's public entry, `pedantic`, does the timing itself and needs the number of runs in advance.
        # Here that number depends on the times. Its statistics accept times that were taken elsewhere.
        self.benchmark._mode = "trio_gate"
        stats = self.benchmark._make_stats(1)
        for ms in new_ms:
            stats.update(ms / 1000)
        self.benchmark.extra_info["trio_gate"] = {
            **verdict.model_dump(mode="json", exclude={"where"}),
            "max_ratio": self.max_ratio,
            "base_revision": self.config.getoption("trio_gate_base"),
            "base_ms": [*base_ms],
        }
        return verdict

    def _load(self, run: str | Callable[[], object], arguments: dict[str, Any]) -> Callable[[], float]:
        """The workload or function, as a function that returns its milliseconds."""
        from trio_profile.gate.rivals import load, one_line

        if not isinstance(run, str):
            return _clocked(run)
        try:
            return load(run)(**arguments)
        except Exception as error:
            pytest.fail(f"trio_gate: the workload {run}: {one_line(error)}", pytrace=False)

    def _base_tree(self, revision: str) -> Path:
        """The directory of the base. All tests share it; it is removed at the end of the run."""
        from trio_profile.gate.rivals import worktree

        stash = self.config.stash
        if _BASE_TREE not in stash:
            stash[_BASE_TREE] = stash[TREES].enter_context(worktree(self.config.rootpath, revision))
        return stash[_BASE_TREE]


def _clocked(run: Callable[[], object], *, cpu: bool = False) -> Callable[[], float]:
    """A function that calls `run` and returns the milliseconds that it took. cpu: of CPU time."""
    clock = time.process_time_ns if cpu else time.perf_counter_ns

    def clocked() -> float:
        start = clock()
        run()
        return (clock() - start) / 1e6

    return clocked
