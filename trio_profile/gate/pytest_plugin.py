"""The gate as a pytest plugin: a marker, a fixture over pytest-benchmark's, and two options.

    @pytest.mark.trio_gate(quantity="prefill_ms", max_ratio=1.03)
    def test_pruned_prefill(trio_gate):
        trio_gate("trio_profile.gate.rivals:prefill", method="trio", retention=0.11)

    pytest --trio-gate-base main        times this tree and `main` in turn, and fails on a regression
    pytest --trio-gate-selftest         what the gate's verdicts are worth: false alarms and power, by kind of noise

It is loaded into every run of whoever installs us: it imports nothing but pytest until it is used.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from trio_profile.gate.selftest import Rates
    from trio_profile.gate.verdict import Verdict

TIMED = (
    *("prefill_ms", "total_ms", "decode_ms", "ttft_ms", "tpot_ms", "vision_ms", "projector_ms", "selection_ms"),
    "run_ms",
)
EXACT = ("fastv_macs", "counted_macs", "selection_macs", "kv_bytes", "kept", "host_waits", "launches")
_ARGUMENTS = ("quantity", "max_ratio", "precision", "pairs", "seconds")
_MARKER = (
    "trio_gate(quantity='run_ms', max_ratio=1.03, precision=0.01, pairs=192, seconds=120): the test's fixture trio_gate"
    " judges this quantity; it is timed until its ratio to the base is known within `precision`, or for that many"
    " pairs or seconds"
)
_LEAST_PAIRS = 12
_BAD_INPUT = 2
_SELFTEST_COMPARISONS = 100

_verdicts = pytest.StashKey[list["Verdict"]]()
_trees = pytest.StashKey[ExitStack]()
_base_tree = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Two options."""
    group = parser.getgroup("trio-profile", "gates of trio-profile")
    group.addoption(
        "--trio-gate-base",
        metavar="REV",
        help="Hold workloads of trio_gate against this revision of the repository, built beside it and timed in turn.",
    )
    group.addoption(
        "--trio-gate-selftest",
        action="store_true",
        help="Run no tests: print the gate's rates of false alarms and of what it catches, by kind of noise.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; refuse a base that there is not."""
    config.addinivalue_line("markers", _MARKER)
    config.stash[_verdicts] = []
    config.stash[_trees] = ExitStack()
    if (revision := config.getoption("trio_gate_base", None)) is not None:
        from trio_profile.errors import ProfileError
        from trio_profile.gate.rivals import commit_of

        try:
            commit_of(config.rootpath, revision)
        except ProfileError as error:
            _refuse(f"--trio-gate-base: {error}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the base's tree."""
    if (trees := config.stash.get(_trees, None)) is not None:
        trees.close()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """The self-test takes the place of a run."""
    if not config.getoption("trio_gate_selftest", False):
        return None
    from trio_profile.gate.selftest import experiment, kept_promises

    print(_selftest_head(_SELFTEST_COMPARISONS))
    rates = []
    for found in experiment(_SELFTEST_COMPARISONS):
        rates.append(found)
        print(_selftest_row(found), flush=True)
    good = kept_promises(rates)
    print(f"at most 1 % false alarms, and 95 % caught where the interval reached 1 %: {'yes' if good else 'NO'}")
    return int(not good)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A gate that could not judge is found before anything runs."""
    for item in items:
        if fault := _fault(item):
            _refuse(f"{item.nodeid}: {fault}")


@pytest.fixture
def trio_gate(request: pytest.FixtureRequest, benchmark: Any) -> Iterator["Gate"]:
    """Judges what it is given to run; see `Gate`."""
    marker = request.node.get_closest_marker("trio_gate")
    gate = Gate(request.config, request.node.nodeid, benchmark, marker.kwargs if marker else {})
    yield gate
    gate.finish()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """One line for each verdict; a pass, too, says on what it rests."""
    if verdicts := config.stash[_verdicts]:
        terminalreporter.section("trio gates")
        for verdict in verdicts:
            terminalreporter.write_line(_sentence(verdict))


class Gate:
    """What the fixture `trio_gate` is, for one test.

    Call it with a workload, "module:function" and its arguments: with --trio-gate-base it is timed in the two revisions
    in turn. Or call it with a function, which is timed here beside the function given as `base`. Without a base it
    passes with its numbers recorded, and says "no base". It fails the test on a regression only; `inconclusive` is
    neutral. The numbers go into the benchmark's `extra_info["trio_gate"]`, its own times into its `stats`.
    """

    def __init__(self, config: pytest.Config, where: str, benchmark: Any, asked: dict[str, Any]):
        self.config, self.where, self.benchmark = config, where, benchmark
        self.quantity: str = asked.get("quantity", "run_ms")
        self.max_ratio = float(asked.get("max_ratio", 1.03))
        self.precision = float(asked.get("precision", 0.01))
        self.pairs, self.seconds = int(asked.get("pairs", 192)), float(asked.get("seconds", 120.0))
        self.tried = False
        self.seen: set[str] = set()

    def __call__(
        self,
        run: str | Callable[[], object] = "trio_profile.gate.rivals:prefill",
        *,
        base: Callable[[], object] | None = None,
        **arguments: Any,
    ) -> "Verdict | None":
        """Time it and judge it; fails the test on a regression and on what cannot be judged. None if disabled."""
        from trio_profile.errors import ProfileError

        if self.tried:
            pytest.fail("trio_gate: one test holds one gate, for its benchmark holds one run", pytrace=False)
        self.tried = True
        self.seen.add(self.quantity if self.quantity in TIMED else "run_ms")
        if self.benchmark.disabled:
            if self.config.getoption("trio_gate_base") is not None:
                pytest.fail(
                    "trio_gate: a base was named, and benchmarks are disabled: nothing is judged", pytrace=False
                )
            self._alone(run, arguments)()
            return None
        try:
            verdicts = self._judge(run, base, arguments)
        except ProfileError as error:
            pytest.fail(f"trio_gate: {error}", pytrace=False)
        self.config.stash[_verdicts] += verdicts
        if failed := [verdict for verdict in verdicts if verdict.verdict == "regression"]:
            pytest.fail("\n".join(_sentence(verdict) for verdict in failed), pytrace=False)
        return verdicts[0]

    def exact(self, name: str, value: int) -> None:
        """Record a whole number that must never grow: `trio-profile gate` holds it against another file's."""
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            pytest.fail(f"trio_gate: {name} = {value!r} is no whole number", pytrace=False)
        self.seen.add(name)
        self.benchmark.extra_info[name] = int(value)

    def finish(self) -> None:
        """A gate that was shut all the while is no pass."""
        if not self.seen:
            pytest.fail("trio_gate was asked for and measured nothing: call it, or its `exact`", pytrace=False)
        if self.quantity in EXACT and self.quantity not in self.seen:
            pytest.fail(f"trio_gate: {self.quantity} was never recorded with trio_gate.exact", pytrace=False)

    def _judge(
        self, run: str | Callable[[], object], base: Callable[[], object] | None, arguments: dict[str, Any]
    ) -> list["Verdict"]:
        revision = self.config.getoption("trio_gate_base")
        if base is not None:
            if isinstance(run, str):
                pytest.fail("trio_gate: a workload's base is a revision, --trio-gate-base", pytrace=False)
            return [self._record(*self._settle(_Turns(_clocked(base), _clocked(run)).sample))]
        if revision is None:
            return self._no_base(self._alone(run, arguments))
        if not isinstance(run, str):
            pytest.fail(
                "trio_gate: a function of this process cannot be run in another revision; name a workload, "
                "'module:function', or give it a base",
                pytrace=False,
            )
        return self._against(self._tree(revision), run, arguments)

    def _against(self, base: Path, run: str, arguments: dict[str, Any]) -> list["Verdict"]:
        """The verdicts on a workload in two trees; a regression of its time is confirmed by a second pair of processes.

        A process has a bias of its own, by where it happens to lie in memory, which no sampling within it averages out
        (Mytkowicz et al. 2009, "Producing wrong data without doing anything obviously wrong!").
        """
        from trio_profile.errors import MeasurementError
        from trio_profile.gate.rivals import Rivals
        from trio_profile.gate.verdict import judge_exact

        with Rivals(base, self.config.rootpath, run, arguments) as rivals:
            before, after = (rivals.workers[name].exact for name in ("base", "new"))
            if lost := sorted(before.keys() - after.keys()):
                raise MeasurementError(f"the workload {run} no longer tells its {lost[0]}, which the base's does")
            exact = [judge_exact(name, self.where, before[name], after[name]) for name in before]
            self.benchmark.extra_info.update(after)
            timed = self._settle(rivals.sample)
        if timed[0].verdict == "regression":
            with Rivals(base, self.config.rootpath, run, arguments, seed=1) as rivals:
                again, base_ms, new_ms = self._settle(rivals.sample)
            confirmed = again.verdict == "regression"
            said = "confirmed by" if confirmed else "a first pair of processes saw a regression, not so"
            update = {
                "verdict": again.verdict if confirmed else "inconclusive",
                "note": f"{said} a second pair of processes",
            }
            timed = again.model_copy(update=update), base_ms, new_ms
        return [self._record(*timed), *exact]

    def _settle(
        self, turns: Callable[[int], tuple[list[float], list[float]]]
    ) -> tuple["Verdict", list[float], list[float]]:
        """The verdict and the milliseconds that it rests on, base's and new."""
        from trio_profile.gate.verdict import settle

        everything: tuple[list[float], list[float]] = [], []
        deadline = time.monotonic() + self.seconds

        def sample(pairs: int) -> tuple[Sequence[float], Sequence[float]]:
            taken: tuple[list[float], list[float]] = [], []
            while len(taken[0]) < pairs and (len(everything[0]) < _LEAST_PAIRS or time.monotonic() < deadline):
                for side, times, whole in zip(turns(1), taken, everything, strict=True):
                    times += side
                    whole += side
            return taken

        verdict = settle(
            sample,
            self.quantity,
            self.where,
            max_ratio=self.max_ratio,
            precision=self.precision,
            least=_LEAST_PAIRS,
            most=self.pairs,
        )
        return verdict, *everything

    def _no_base(self, run: Callable[[], float]) -> list["Verdict"]:
        from trio_profile.gate.verdict import Verdict
        from trio_profile.stats.intervals import median, median_interval

        run()
        times = [run() for _ in range(_LEAST_PAIRS)]
        verdict = Verdict(
            quantity=self.quantity,
            where=self.where,
            base=None,
            new=median(times),
            ratio=None,
            ci95=None,
            verdict="no base",
            samples=len(times),
        )
        self._record(verdict, [], times)
        self.benchmark.extra_info["trio_gate"]["new_ci95"] = list(median_interval(times))
        return [verdict]

    def _record(self, verdict: "Verdict", base_ms: list[float], new_ms: list[float]) -> "Verdict":
        # pytest-benchmark's own entry, `pedantic`, wants to do the timing and the counting, which here depend on what
        # was seen; its statistics take times that others took.
        self.benchmark._mode = "trio_gate"
        stats = self.benchmark._make_stats(1)
        for ms in new_ms:
            stats.update(ms / 1000)
        self.benchmark.extra_info["trio_gate"] = {
            **verdict.model_dump(mode="json", exclude={"where"}),
            "max_ratio": self.max_ratio,
            "base_revision": self.config.getoption("trio_gate_base"),
            "base_ms": base_ms,
        }
        return verdict

    def _alone(self, run: str | Callable[[], object], arguments: dict[str, Any]) -> Callable[[], float]:
        from trio_profile.gate.rivals import load, one_line

        if not isinstance(run, str):
            return _clocked(run)
        try:
            return load(run)(**arguments)
        except Exception as error:
            pytest.fail(f"trio_gate: the workload {run}: {one_line(error)}", pytrace=False)

    def _tree(self, revision: str) -> Path:
        """The base's tree: one for all tests, gone when the session ends."""
        from trio_profile.gate.rivals import worktree

        stash = self.config.stash
        if _base_tree not in stash:
            stash[_base_tree] = stash[_trees].enter_context(worktree(self.config.rootpath, revision))
        return stash[_base_tree]


class _Turns:
    """Two functions of this process in turn, in random order within a pair, after a warm-up of each."""

    def __init__(self, base: Callable[[], float], new: Callable[[], float]):
        self._runs, self._order = (base, new), random.Random(0)
        for _ in range(2):
            self.sample(1)

    def sample(self, pairs: int) -> tuple[list[float], list[float]]:
        times: tuple[list[float], list[float]] = [], []
        for _ in range(pairs):
            for side in self._order.sample((0, 1), 2):
                times[side].append(self._runs[side]())
        return times


def _clocked(run: Callable[[], object]) -> Callable[[], float]:
    """The same, returning the milliseconds that it took."""

    def clocked() -> float:
        start = time.perf_counter_ns()
        run()
        return (time.perf_counter_ns() - start) / 1e6

    return clocked


def _fault(item: pytest.Item) -> str | None:
    """What is wrong with a test's gate."""
    for marker in item.iter_markers():
        if marker.name == "trio_gate":
            return _marker_fault(marker) or _fixture_fault(item)
        if ("gate" in marker.name or "trio" in marker.name) and get_close_matches(marker.name, ["trio_gate"], 1, 0.8):
            return f"marker {marker.name!r} is none; did you mean 'trio_gate'?"
    return None


def _marker_fault(marker: pytest.Mark) -> str | None:
    if marker.args:
        return f"the marker trio_gate takes {', '.join(_ARGUMENTS)} by name, not {marker.args[0]!r}"
    for name, value in marker.kwargs.items():
        if name not in _ARGUMENTS:
            return f"the marker trio_gate has no {name!r}; it takes {', '.join(_ARGUMENTS)}"
        if name == "quantity":
            if value not in TIMED + EXACT:
                near = get_close_matches(str(value), TIMED + EXACT, 1)
                return f"quantity {value!r} is none of {', '.join(TIMED + EXACT)}" + (
                    f"; did you mean {near[0]!r}?" if near else ""
                )
        elif isinstance(value, bool) or not isinstance(value, int | float):
            return f"{name} = {value!r} is no number"
        elif name == "max_ratio" and not 1 <= value <= 10:
            return f"max_ratio = {value!r} is no bound: choose one from 1 to 10, such as 1.03"
        elif name == "precision" and not 0 < value < 1:
            return f"precision = {value!r} must lie between 0 and 1"
        elif name == "pairs" and not (isinstance(value, int) and value >= _LEAST_PAIRS):
            return f"pairs = {value!r} is too few: a verdict needs {_LEAST_PAIRS}"
        elif name == "seconds" and not 0 < value < float("inf"):
            return f"seconds = {value!r} is no time"
    return None


def _fixture_fault(item: pytest.Item) -> str | None:
    if "trio_gate" not in getattr(item, "fixturenames", ()):
        return "it is marked trio_gate and does not ask for the fixture trio_gate: nothing would be judged"
    return None


def _refuse(message: str) -> NoReturn:
    """End the run as bad input: one line, and no test has passed."""
    pytest.exit(f"trio_gate: {' '.join(message.split())}", returncode=_BAD_INPUT)


def _sentence(verdict: "Verdict") -> str:
    from trio_profile import units

    head = f"{verdict.verdict}: {verdict.quantity} of {verdict.where}"
    if isinstance(verdict.new, int):
        return f"{head} went from {units.exact(int(verdict.base or 0))} to {units.exact(verdict.new)}"
    if verdict.ratio is None or verdict.ci95 is None:
        return f"{head} is {units.milliseconds(verdict.new)} ({verdict.samples} samples); nothing to hold it against"
    note = f"; {verdict.note}" if verdict.note else ""
    return f"{head} is {units.times_within(verdict.ratio, verdict.ci95)} of the base's ({verdict.samples} pairs{note})"


_HEADS = (
    "false\nalarms",
    "left\nopen",
    "caught",
    "reached\n1 %",
    "caught\nof these",
    "pairs",
    "two means:\nfalse",
    "caught",
    "two jobs:\nfalse",
    "caught",
)


def _selftest_head(comparisons: int) -> str:
    lines = zip(*((["", *head.split("\n")])[-2:] for head in _HEADS), strict=True)
    table = "\n".join(f"{'':<16}" + "".join(f"{word:>10}" for word in line) for line in lines)
    return f"{comparisons} comparisons a model: nothing changed (false alarms, left open), 5 % slower (caught)\n{table}"


def _selftest_row(found: "Rates") -> str:
    from trio_profile import units

    shares = (found.false_alarms, found.inconclusive, found.caught, found.reached, found.caught_reached)
    naive = (found.naive.false_alarms, found.naive.caught, found.naive_jobs.false_alarms, found.naive_jobs.caught)
    words = [*(units.percent(share) for share in shares), f"{found.pairs:.0f}", *(units.percent(s) for s in naive)]
    return f"{found.model:<16}" + "".join(f"{word:>10}" for word in words)
