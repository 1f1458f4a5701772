"""Questions with known answers: both servers are asked, and no speed is praised whose answers are gone."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from PIL import Image

from tests.profile.kinds.servers.fake_servers import FakeServer, study
from tests.profile.kinds.servers.kept import endpoints_document
from tests.profile.kinds.servers.kept import log_of as segments_of
from tests.profile.reading import line_of
from trio_profile.errors import StoreError, StudyError
from trio_profile.inputs.pocket.grammar import exam
from trio_profile.kinds.servers.advice import conclude
from trio_profile.kinds.servers.document import EndpointsDocument
from trio_profile.kinds.servers.doubts import doubts_about
from trio_profile.kinds.servers.plan import preview
from trio_profile.kinds.servers.questions import answers_of, questions_of, unanswered
from trio_profile.kinds.servers.requests import ARMS, RequestLog, ServedAnswer
from trio_profile.kinds.servers.run import run

KNOWN = {question.text: str(question.answer) for question in exam(12)}
SMALL: Mapping[str, Any] = {"concurrency": (1,), "rounds": 2, "requests": 4, "segment_seconds": 5.0}


def log_of(dense: str, pruned: str) -> RequestLog:
    """Answers to questions, a letter each: `r` right, `w` wrong, `x` a failed request. Each has its own picture."""
    found = segments_of(study(concurrency=(1,)))
    for arm, letters in zip(ARMS, (dense, pruned), strict=True):
        for number, letter in enumerate(letters):
            error = "HTTP 503" if letter == "x" else None
            found.add(ServedAnswer(question=number, picture=number, arm=arm, text="", right=letter == "r", error=error))
    return found


def with_answers(dense: str, pruned: str) -> EndpointsDocument:
    return endpoints_document().model_copy(update={"answers": answers_of(log_of(dense, pruned)), "doubts": ()})


@pytest.fixture
def file(tmp_path):
    """Twelve questions in a file, whose answers `KNOWN` says."""
    Image.new("RGB", (32, 32), "grey").save(tmp_path / "grey.png")
    lines = [{"image": "grey.png", "question": text, "answer": answer} for text, answer in KNOWN.items()]
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_both_servers_are_scored_and_the_difference_is_paired(file, small_pictures, tmp_path):
    half = list(KNOWN)[:6]
    with (
        FakeServer(says=lambda text: KNOWN.get(text, "-")) as dense,
        FakeServer(says=lambda text: KNOWN[text] if text in half else "-", kept=16) as pruned,
    ):
        shown = {"questions": str(file), "pictures": str(small_pictures), "prompt": "Describe."}
        asked = study(dense=dense.url, pruned=pruned.url, **shown, **SMALL)
        document = run(asked, tmp_path / "out")
        before = len(dense.requests)
        run(asked, tmp_path / "out")  # it is finished
        assert len(dense.requests) == before
    answers = document.answers
    assert answers is not None
    assert (answers.dense.value, answers.pruned.value, answers.difference.value) == (1, 0.5, -0.5)
    assert answers.difference.samples == 12 and answers.difference.ci95[0] < -0.5 < answers.difference.ci95[1]
    (shown,) = (body for body, _ in dense.requests if body["messages"][0]["content"][-1]["text"] == half[0])
    assert shown["messages"][0]["content"][0]["image_url"]["url"].startswith("data:image/png")
    file.write_text(file.read_text() + "\n")
    with pytest.raises(StoreError, match=" have changed since "):
        run(asked, tmp_path / "out")


@pytest.mark.parametrize(
    ("dense", "pruned", "line"),
    [
        ("r" * 400, "w" * 400, "Do not: of 5 loads 1 is at most 5 % faster and 4 are faster at a loss of "),
        ("r" * 400, "r" * 360 + "x" * 40, "Do not: of 5 loads 1 is at most 5 % faster and 4 are faster at a loss of "),
        ("r" * 12, "r" * 11 + "x", "Not decided: with a concurrency of 1 the gain in goodput is at least 2"),
        (
            "r" * 400,
            "r" * 400,
            "Do: prune at a concurrency of 1, a concurrency of 2, a concurrency of 4 and a rate of 3. ",
        ),
    ],
)
def test_a_speed_whose_answers_are_gone_is_not_praised(dense, pruned, line):
    assert line_of(conclude(with_answers(dense, pruned))).startswith(line)


def test_few_questions_lower_the_sureness_of_a_speed():
    assert [conclude(with_answers("r" * asked, "r" * asked)).sureness for asked in (12, 1000)] == ["low", "high"]


def test_a_question_that_is_not_answered_counts_as_wrong_and_is_asked_again():
    log = log_of("r" * 12, "r" * 11 + "x")
    answers = answers_of(log)
    assert answers is not None and answers.pruned.value == pytest.approx(11 / 12)
    assert unanswered(log, exam(13)) == [11, 12]
    (doubt,) = _doubts(log)
    assert doubt == "the pruned server did not answer 1 of 12 questions, which count as wrong, most often: HTTP 503"


def test_a_dense_server_without_a_right_answer_says_nothing_about_pruning():
    (doubt,) = _doubts(log_of("w" * 12, "w" * 12))
    assert doubt.startswith("the dense server answers none of 12 questions right")
    found = conclude(with_answers("w" * 12, "w" * 12))
    assert (found.word, found.loss) == ("try", None)
    assert "points" not in found.sentence and "none of 12 questions right" in found.reasons[0]


def test_questions_without_answers_or_too_few_are_refused(file):
    assert len(questions_of(study(questions=str(file), asked=11))) == 11
    assert [one.text for one in questions_of(study(asked=12))] == list(KNOWN)
    assert preview(study(asked=12)).questions == 12 and not questions_of(study())
    with pytest.raises(StudyError, match="--asked: 5 questions with answers; an interval needs at least 10"):
        questions_of(study(asked=5))
    file.write_text("\n".join(json.dumps({"image": "grey.png", "question": text}) for text in KNOWN))
    with pytest.raises(StudyError, match="have no answers, so nothing can be scored"):
        questions_of(study(questions=str(file)))
    with pytest.raises(StudyError, match=r"nowhere.jsonl do not exist"):
        study(questions="nowhere.jsonl")


def _doubts(log: RequestLog) -> list[str]:
    """The sentences of the doubts about questions."""
    kinds = ("unanswered questions", "no right answers")
    return [doubt.sentence for doubt in doubts_about(log) if doubt.kind in kinds]
