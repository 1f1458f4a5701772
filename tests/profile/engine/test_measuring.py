"""What one process measures: its share of counts and answers, and rounds for as long as it may."""

from dataclasses import replace

import pytest
import torch

from tests.profile.faking import FakeClock, FakeGpu
from trio_core.errors import RetentionError
from trio_core.methods.grid import Grid
from trio_profile.engine import measuring
from trio_profile.engine.measuring import Loaded, Opened, Timer, blocks_of, count_share, measure, open_process
from trio_profile.engine.orders import Allowance, Order, Share
from trio_profile.engine.plan import resolve
from trio_profile.engine.shares import Answers, Parts
from trio_profile.errors import StoreError
from trio_profile.profilers import rounds
from trio_profile.records.schema import Dense, Measurement, Picture, Round, Study

pytestmark = pytest.mark.usefixtures("without_fvcore")


def silent(*_: object) -> None:
    """Report nothing."""


@pytest.fixture(scope="module")
def opened(tiny_study: Study) -> Opened:
    """Two methods at one retention. The picture is the only input."""
    fields = {"methods": ("grid", "random"), "retentions": (0.4,), "fidelity_inputs": 1}
    return open_process(Order(study=tiny_study.model_copy(update=fields), command="trio-profile sweep"))


def test_a_session_says_who_measures_how_and_what(opened, checkpoint):
    session = opened.session
    assert session.command == "trio-profile sweep" and session.load_seconds > 0
    assert session.environment.cpu_threads == torch.get_num_threads()
    assert {"image", "model/config.json"} <= set(session.inputs)
    again = open_process(Order(study=opened.plan.study), opened.plan)
    assert again.plan is opened.plan and again.session.id != session.id


def test_a_stage_that_drops_nothing_is_no_other_schedule(opened):
    """As in a log of before, when all default stages were kept."""
    planned = opened.plan.cells[0]
    layers, budgets = planned.schedule.layers, planned.schedule.budgets
    idle = ((layers[0] - 1, *layers), (planned.schedule.visual_tokens, *budgets))
    other = (layers, (*budgets[:-1], budgets[-1] - 1))

    def begin(stages) -> None:
        order = Order(study=opened.plan.study, stages={planned.cell.id: stages})
        measure([order], lambda _: None, Loaded(opened.plan))

    begin(idle)
    with pytest.raises(StoreError, match=r"was counted with .* choose another --out"):
        begin(other)


# Counts and answers


def test_two_shares_of_a_study_give_the_records_of_one(opened):
    """Energy, memory, ratios of pictures and divergences are not exact. One question is fewer than two shares."""
    cells = tuple(planned.cell.id for planned in opened.plan.cells)
    alone = [(0, part) for part in count_share(opened, Share(counts=cells, answers=cells), silent)]
    first = Share(number=0, of=2, counts=cells[:1], answers=cells)
    second = Share(number=1, of=2, counts=cells[1:], answers=cells, dense=False, picture=False)
    parts = [(share.number, part) for share in (first, second) for part in count_share(opened, share, silent)]
    assert [type(part) for _, part in parts].count(Picture) == 1

    def records(shares: int, parts) -> dict[str, dict]:
        gathered = Parts(shares)
        found = [record for numbered in parts for record in gathered.add(*numbered)]
        unlike = dict.fromkeys(("energy", "peak_memory_bytes", "working_memory_bytes"), True)
        unlike |= {"fidelity": {"kl_nats"}}
        return {
            record.cell.id if isinstance(record, Measurement) else record.record: record.model_dump(exclude=unlike)
            for record in found
        }

    assert records(2, parts) == records(1, alone)
    assert set(records(1, alone)) == {"dense", "picture", *cells}


def test_a_cell_without_memory_fails_and_the_others_go_on(opened, monkeypatch):
    cells = tuple(planned.cell.id for planned in opened.plan.cells)
    share = Share(counts=cells, answers=cells, dense=False, picture=False)
    error = RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried")
    monkeypatch.setattr(Grid, "select", lambda *_: _raise(error))
    parts = list(count_share(opened, share, silent))
    failed, counted = [part for part in parts if isinstance(part, Measurement)]
    assert (failed.cell.method, failed.status) == ("grid", "failed")
    assert str(failed.reason).startswith("out of memory") and counted.status == "counted"
    assert [part.cell for part in parts if isinstance(part, Answers)] == ["", counted.cell.id]


def test_any_other_error_is_raised(opened, monkeypatch):
    cells = tuple(planned.cell.id for planned in opened.plan.cells)
    monkeypatch.setattr(Grid, "select", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(count_share(opened, Share(counts=cells), silent))


def test_a_refused_cell_is_recorded_by_the_share_that_counts_it(tiny_study):
    study = tiny_study.model_copy(update={"methods": ("trio", "visionzip"), "retentions": (0.1,)})
    with pytest.raises(RetentionError):
        open_process(Order(study=study))
    opened = open_process(Order(study=study, keep_refusals=True))
    names = {cell.method: cell.id for cell in study.cells()}
    shares = [Share(counts=(names[method],), dense=False, picture=False) for method in ("trio", "visionzip")]
    first, second = (
        [part.status for part in count_share(opened, share, silent) if isinstance(part, Measurement)]
        for share in shares
    )  # pyright: ignore
    assert (first, second) == (["refused"], ["counted"])


# Rounds


def test_how_long_a_process_measures():
    """The best number of rounds is √(overhead / round · ratio); all processes share what is left."""
    plain = Allowance(left=800.0, whole=800.0, ratio=9.0)
    assert plain.seconds(100.0, 1.0) == pytest.approx(30.0)  # √(100 · 9) rounds
    assert plain.seconds(0.01, 1.0) == pytest.approx(1.0)  # one round at least
    assert Allowance(left=110.0, whole=1000.0, ratio=9.0).seconds(100.0, 1.0) == pytest.approx(10.0)
    assert Allowance(left=50.0, whole=1000.0).seconds(100.0, 1.0) == 0.0
    # A process that starts at once measures so briefly that eight fit into the time.
    assert Allowance(left=80.0, whole=80.0, ratio=1e6).seconds(1.0, 1.0) == pytest.approx(9.0)
    assert Allowance(left=1.0, whole=60.0, processes=4).seconds(5.0, 1.0) == pytest.approx(10.0)


class Watch:
    """A clock on which each round takes a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now, self.slept, self.phases, self.cells = 0.0, list[float](), list[str](), list[set[str]]()
        monkeypatch.setattr(measuring.time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(measuring.time, "sleep", self.slept.append)
        measure = rounds.measure

        def measured(workload, methods, phase, draw, clock, gpu):
            self.now += 1.0
            self.phases.append(phase)
            self.cells.append(set(methods))
            return measure(workload, methods, phase, draw, FakeClock(), gpu)

        monkeypatch.setattr(rounds, "measure", measured)


def timer(opened: Opened, **fields) -> Timer:
    """Times both cells."""
    cells = [planned.cell.id for planned in opened.plan.cells]
    return Timer(replace(opened, clock=FakeClock()), blocks_of(opened.plan, cells), "0 1", **fields)


def test_a_process_warms_up_and_measures_rounds_until_its_time_ends(opened, monkeypatch):
    """Of 20 seconds loading and the warm-up take some; the generation comes once the process is warm."""
    watch = Watch(monkeypatch)
    found = list(timer(opened).measure(Allowance(left=20.0, whole=20.0, processes=1)))
    assert [record.phase for record in found] == ["warm-up", *watch.phases[1:]]  # pyright: ignore
    assert watch.phases[:4] == ["generation", "generation", "prefill", "prefill"]
    assert watch.phases.count("generation") == 2
    assert 19 <= watch.now + opened.session.load_seconds <= 22
    orders = {tuple(run.cell for run in record.runs) for record in found if isinstance(record, Round)}
    assert len(orders) > 3


def test_each_cell_is_warmed_up_with_what_is_timed(opened, monkeypatch):
    """The warm-up of generations is a part of their share of the time. Without time there is one round."""
    watch = Watch(monkeypatch)
    for generating, phases in ((0.0, ["generation"] * 2 + ["prefill"]), (9.0, ["prefill"] * 2)):
        watch.phases.clear()
        watch.cells.clear()
        first, *_ = timer(opened).measure(Allowance(left=0.0, whole=1.0, processes=1, generating=generating))
        assert isinstance(first, Round) and first.phase == "warm-up"
        assert first.generates == (phases[0] == "generation")
        assert watch.phases == phases
        assert all(len(cells) == 2 for cells in watch.cells)


@pytest.mark.slow
def test_the_seed_of_a_session_gives_its_orders(opened, monkeypatch):
    def orders(seed: str) -> list[tuple[str, ...]]:
        watch = Watch(monkeypatch)
        one = replace(timer(opened), seed=seed)
        found = list(one.measure(Allowance(left=7.0, whole=7.0, processes=1)))
        assert watch.now > 4
        return [tuple(run.cell for run in record.runs) for record in found if isinstance(record, Round)][:5]

    assert orders("0 1") == orders("0 1") != orders("0 2")


def test_a_cell_that_runs_out_of_memory_leaves_the_rounds(opened, monkeypatch):
    Watch(monkeypatch)
    select, calls = Grid.select, list[int]()

    def breaks(self, view):
        calls.append(1)
        return _raise(torch.OutOfMemoryError("CUDA out of memory")) if len(calls) > 8 else select(self, view)

    monkeypatch.setattr(Grid, "select", breaks)
    found = list(timer(opened).measure(Allowance(left=12.0, whole=12.0, processes=1)))
    [failed] = [record for record in found if isinstance(record, Measurement)]
    assert failed.cell.method == "grid" and str(failed.reason).startswith("out of memory")
    place = found.index(failed)
    assert all(len(record.cells) == 2 for record in found[:place] if isinstance(record, Round))
    rest = [record.cells for record in found[place + 1 :] if isinstance(record, Round)]
    assert len(rest) > 3 and set(rest) == {(opened.plan.cells[1].cell.id,)}


def test_a_slowed_gpu_rests_for_a_part_of_the_time_and_its_rounds_do_not_count(opened, monkeypatch):
    """All are slow. A quarter of 9 seconds may be lost, and the warm-up is not."""
    watch = Watch(monkeypatch)
    monkeypatch.setattr(rounds, "gpu_of", lambda _: FakeGpu([1400]))
    found = list(timer(opened).measure(Allowance(left=9.0, whole=9.0, processes=1)))
    assert [record.discarded for record in found[:6]] == [False, True, True, True, False, False]  # pyright: ignore
    assert watch.slept == [measuring.SLOWED_PAUSE] * 3


def test_blocks_hold_the_cells_that_are_timed(tiny_study):
    retentions = tuple(number / 40 for number in range(12, 40))
    plan = resolve(tiny_study.model_copy(update={"methods": ("grid",), "retentions": retentions}))
    names = [planned.cell.id for planned in plan.cells]
    blocks = blocks_of(plan, names[1:])
    assert [len(block) for block in blocks] == [11, 12, 4]
    assert [planned.cell.id for block in blocks for planned in block] == names[1:]
    assert blocks_of(plan, names[-1:]) == [[plan.cells[-1]]]


def _raise(error: Exception):
    raise error


def test_a_dense_model_alone_is_counted(tiny_study):
    opened = open_process(Order(study=tiny_study.model_copy(update={"retentions": ()})))
    dense, answers = count_share(opened, Share(picture=False), silent)
    assert isinstance(dense, Dense) and answers == Answers()
