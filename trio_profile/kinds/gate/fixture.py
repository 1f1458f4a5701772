"""The fixture `trio_gate`: it times a test's workload beside its base and fails the test on a regression."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat

from trio_profile.errors import MeasurementError, ProfileError
from trio_profile.kinds.gate.document import OfInconclusive, Verdict
from trio_profile.kinds.gate.rival_worker import DEFAULT, load, one_line
from trio_profile.kinds.gate.rivals import WARMUPS, Sampler, in_turn, rivals
from trio_profile.kinds.gate.verdict import (
    LEAST_PAIRS,
    Times,
    failures,
    judge_exact,
    sentence,
    settle,
    settle_in_processes,
)
from trio_profile.quantities.registry import QUANTITIES
from trio_profile.reading import LARGEST_INTEGER
from trio_profile.stats.intervals import median

TIMED = ("run_ms", "decode_ms", *(name for name, quantity in QUANTITIES.items() if quantity.phase))
"""The quantities that are timed. With one thread, other work hardly changes `cpu_ms`, the CPU time of a run."""
EXACT = ("kept", "selection_macs", *(quantity.gated for quantity in QUANTITIES.values() if quantity.gated))
"""The quantities that are whole numbers."""


def _known(quantity: str) -> str:
    if quantity not in TIMED + EXACT:
        raise ValueError(f"is none of {', '.join(TIMED + EXACT)}")
    return quantity


class Settings(BaseModel):
    """The arguments of the marker `trio_gate`.

    quantity: what the test judges.
    max_ratio: the largest allowed ratio new / base.
    precision, pairs, seconds: sampling ends when the ratio is known within `precision`, or when so many pairs or
        seconds are spent.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    quantity: Annotated[str, AfterValidator(_known)] = "run_ms"
    max_ratio: Annotated[float, Field(ge=1, le=10)] = 1.03
    precision: Annotated[float, Field(gt=0, lt=1)] = 0.01
    pairs: Annotated[int, Field(ge=LEAST_PAIRS)] = 192
    seconds: Annotated[FiniteFloat, Field(gt=0)] = 120.0


class Gate:
    """The fixture `trio_gate` of one test. It fails the test on a regression.

    Call it with a workload, "module:function", and the workload's arguments. With --trio-gate-base the workload is
    timed in both revisions in turn. Or call it with a function, and with another one as `base`; the two are timed in
    turn in this process. Without a base the test passes with the verdict "no base". An inconclusive verdict passes too,
    unless --trio-gate-inconclusive=fail is given.

    The numbers are written to the benchmark's `extra_info["trio_gate"]`, and the new times to its `stats`.

    config: of the pytest run.
    where: name of the test, for messages.
    benchmark: the fixture of pytest-benchmark.
    settings: the marker's arguments.
    base_tree: the directory of the base; None without --trio-gate-base.
    """

    def __init__(self, config: pytest.Config, where: str, benchmark: Any, settings: Settings, base_tree: Path | None):
        self.config, self.where, self.benchmark = config, where, benchmark
        self.settings, self.base_tree = settings, base_tree
        self.inconclusive: OfInconclusive = cast(Any, config.getoption("trio_gate_inconclusive"))
        self.timed = settings.quantity if settings.quantity in TIMED else "run_ms"
        self.verdicts: list[Verdict] = []
        self.recorded: set[str] = set()

    def __call__(
        self, run: str | Callable[[], object] = DEFAULT, *, base: Callable[[], object] | None = None, **arguments: Any
    ) -> Verdict | None:
        """Time the workload or function and judge it.

        Returns the verdict on the marker's quantity; None if benchmarks are disabled. Fails the test on a regression,
        and on anything that cannot be judged.
        """
        if self.timed in self.recorded:
            _fail("call it once in a test, because its benchmark records one run")
        self.recorded.add(self.timed)
        try:
            self.verdicts += self._judge(run, base, arguments)
        except ProfileError as error:
            _fail(str(error))
        if worse := failures(self.verdicts, self.inconclusive):
            pytest.fail("\n".join(sentence(verdict, self.inconclusive) for verdict in worse), pytrace=False)
        return self.verdicts[0] if self.verdicts else None

    def exact(self, name: str, value: int) -> None:
        """Record a whole number that must never grow. `trio-profile gate` compares it with another file's."""
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            _fail(f"{name} = {value!r} is no whole number")
        if abs(number := int(value)) > LARGEST_INTEGER:
            _fail(f"{name} has {number.bit_length()} bits: at most 63 can be compared")
        self.recorded.add(name)
        self.benchmark.extra_info[name] = number

    def finish(self) -> None:
        """Fail the test if it measured nothing."""
        if not self.recorded:
            _fail("it measured nothing: call it, or its `exact`, or do not ask for it")
        if self.settings.quantity in EXACT and self.settings.quantity not in self.recorded:
            _fail(f"{self.settings.quantity} was never recorded with trio_gate.exact")

    def _judge(
        self, run: str | Callable[[], object], base: Callable[[], object] | None, arguments: dict[str, Any]
    ) -> Iterable[Verdict]:
        if base is not None and isinstance(run, str):
            raise MeasurementError("a workload's base is a revision, --trio-gate-base")
        if self.benchmark.disabled:
            if self.base_tree is not None:
                raise MeasurementError("a base was named, but benchmarks are disabled")
            self._load(run, arguments)()
            return []
        if base is not None:
            sample = in_turn(self._load(base, {}), self._load(run, {}))
            sample(WARMUPS)
            return [self._record(*self._settle(sample))]
        if self.base_tree is None:
            return [self._without_base(self._load(run, arguments))]
        if not isinstance(run, str):
            raise MeasurementError(
                "a function of this process cannot be run in another revision; name a workload, 'module:function', or "
                "pass another function as base"
            )
        return self._compare_trees(self.base_tree, run, arguments)

    def _compare_trees(self, base: Path, run: str, arguments: dict[str, Any]) -> list[Verdict]:
        """The verdicts on a workload in two trees: on its time, and on each of its exact numbers."""
        clock = "cpu_ms" if self.timed == "cpu_ms" else "ms"
        exact: list[Verdict] = []

        def settle_once(number: int) -> tuple[Verdict, Times]:
            with rivals(base, self.config.rootpath, run, arguments, seed=number, time=clock) as (workers, sample):
                before, after = (worker.exact for worker in workers)
                if lost := sorted(before.keys() - after.keys()):
                    raise MeasurementError(f"the workload {run} no longer reports its {lost[0]}, which the base's does")
                exact[:] = [judge_exact(name, self.where, before[name], after[name]) for name in before]
                self.benchmark.extra_info.update(after)
                return self._settle(sample)

        timed = settle_in_processes(settle_once, self.settings.max_ratio)
        return [self._record(*timed), *exact]

    def _settle(self, sample: Sampler) -> tuple[Verdict, Times]:
        """The verdict, and the times that it is based on."""
        limits = self.settings.model_dump(exclude={"quantity"})
        return settle(sample, self.timed, self.where, **limits)

    def _without_base(self, run: Callable[[], float]) -> Verdict:
        """The verdict "no base", with the times of this tree."""
        run()
        times = [run() for _ in range(LEAST_PAIRS)]
        new, samples = median(times), len(times)
        verdict = Verdict(quantity=self.timed, where=self.where, new=new, samples=samples, verdict="no base")
        return self._record(verdict, ((), times))

    def _record(self, verdict: Verdict, times: Times) -> Verdict:
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
            "max_ratio": self.settings.max_ratio,  # also beside "no base"
            "base_revision": self.config.getoption("trio_gate_base"),
            "base_ms": [*base_ms],
        }
        return verdict

    def _load(self, run: str | Callable[[], object], arguments: dict[str, Any]) -> Callable[[], float]:
        """The workload or function, as a function that returns its milliseconds."""
        if not isinstance(run, str):
            return _clocked(run, cpu=self.timed == "cpu_ms")
        try:
            return load(run)(**arguments)
        except Exception as error:
            raise MeasurementError(f"the workload {run}: {one_line(error)}") from error


def _clocked(run: Callable[[], object], *, cpu: bool) -> Callable[[], float]:
    """A function that calls `run` and returns the milliseconds that it took. cpu: of CPU time."""
    clock = time.process_time_ns if cpu else time.perf_counter_ns

    def clocked() -> float:
        start = clock()
        run()
        return (clock() - start) / 1e6

    return clocked


def _fail(message: str) -> NoReturn:
    """Fail the test in one line."""
    pytest.fail(f"trio_gate: {message}", pytrace=False)
