"""The conclusion of a study of servers, for each outcome."""

import pytest

from tests.profile.kinds.servers.fake_servers import study
from tests.profile.kinds.servers.kept import endpoints_document, log_of
from tests.profile.reading import line_of
from trio_profile.judge.doubts import Doubt
from trio_profile.kinds.servers.advice import conclude
from trio_profile.kinds.servers.document import AtLoad
from trio_profile.kinds.servers.report import report
from trio_profile.kinds.servers.requests import ARMS
from trio_profile.kinds.servers.summary import document_of
from trio_profile.records.estimate import Gain


def at(load: AtLoad, low: float, high: float) -> AtLoad:
    """The same load with this interval of the throughput's gain."""
    return load.model_copy(
        update={"gains": {"throughput": Gain(value=(low * high) ** 0.5, ci95=(low, high), samples=400)}}
    )


@pytest.mark.parametrize(
    ("gains", "line"),
    [
        (
            ((2, 3), (2, 3), (1.5, 2), (0.5, 0.6)),
            "Try: prune at a concurrency of 1, 2 and 4. The gain in throughput is at least ",
        ),
        (
            ((0.9, 2.5),) * 4,
            "Not decided: no load is shown to be faster. The largest gain is possible with ",
        ),
        (((0.5, 0.6),) * 4, "Do not: of 4 loads 4 are at most 5 % faster."),
    ],
)
def test_only_a_load_whose_own_interval_does_not_contain_1_is_advised(gains, line):
    document = endpoints_document()
    loads = tuple(at(load, *gain) for load, gain in zip(document.loads[:4], gains, strict=True))
    found = conclude(document.model_copy(update={"loads": loads}))
    assert line_of(found).startswith(line)
    assert line_of(found).endswith(". It is shown to be slower at a concurrency of 8.") == (found.word == "try")


@pytest.mark.parametrize("arm", ARMS)
def test_nothing_is_advised_from_a_study_in_which_a_server_failed(arm):
    asked = study(concurrency=(1, 2), rounds=2)
    log = log_of(asked, lambda arm, *_: 1.0 if arm == "dense" else 2.0)
    assert conclude(document_of(asked, log)).word == "try"
    number = ARMS.index(arm)
    log.requests[number][7] = log.requests[number][7].model_copy(update={"error": "it says in its stream: no memory"})
    document = document_of(asked, log)
    words = f"1 of 80 requests to the {arm} server failed, warm-up included, most often: it says in its stream: no"
    assert line_of(conclude(document)).startswith(f"Nothing to decide: a server failed: {words}")
    assert document.break_even == ()
    assert "Break-even, by" not in str(report(document))


def test_a_doubt_lowers_the_sureness_and_an_unfinished_study_is_never_sure():
    document = endpoints_document()
    doubts = {kind: Doubt(cell=None, kind=kind, sentence="s", next_step="n", found=1, threshold=0) for kind in KINDS}
    levels = [conclude(document.model_copy(update={"doubts": (doubts[kind],)})).sureness for kind in KINDS]
    assert levels == ["low", "low"]
    assert conclude(document.model_copy(update={"pairs_left": 3})).reasons[0].startswith("3 of ")


def test_the_next_command_measures_as_long_as_the_doubts_need():
    document = endpoints_document()
    command = "trio-profile endpoints --requests 32 --seconds 5 --out a"
    few = Doubt(cell=None, kind="few requests", sentence="s", next_step="n", found=5, threshold=100)
    sessions = [session.model_copy(update={"command": command}) for session in document.sessions]
    study = document.study.model_copy(update={"requests": 32, "segment_seconds": 5})
    update = {"sessions": tuple(sessions), "doubts": (few,), "answers": None, "study": study}
    found = conclude(document.model_copy(update=update))
    assert found.next == ("trio-profile endpoints --requests 640 --seconds 100 --questions FILE --out ANOTHER")


KINDS = ("prefix cache", "few requests")


def test_servers_that_were_started_once_are_a_try_that_says_so():
    document = endpoints_document()
    found = conclude(document.model_copy(update={"sessions": document.sessions[:1]}))
    assert (found.word, found.sureness) == ("try", "low")
    assert found.reasons[0].startswith("the servers were started once")
    assert not any(reason.startswith("the servers were started once") for reason in conclude(document).reasons)
