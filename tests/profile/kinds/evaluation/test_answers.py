from tests.profile import examples
from tests.profile.kinds.evaluation.test_summary import CELL, question
from trio_profile.kinds.evaluation.answers import AnswerStore, RefusedCell
from trio_profile.records.schema import Session
from trio_profile.records.study import Study

STUDY = Study(verb="eval", tasks=("pope",))


def session(name: str) -> Session:
    return Session(id=name, environment=examples.environment())


def test_a_store_goes_on_with_what_it_holds(tmp_path):
    first = AnswerStore(tmp_path, STUDY, session("a"))
    first.append(question(0))
    first.append(RefusedCell(cell=CELL, reason="too few tokens"))
    second = AnswerStore(tmp_path, STUDY, session("b"))
    second.append(question(1))
    found = AnswerStore(tmp_path, STUDY, session("c")).contents
    assert [one.id for one in found.sessions] == ["a", "b", "c"]
    assert [(one.document, one.session) for one in found.questions.values()] == [(0, "a"), (1, "b")]
    assert found.refused[CELL.id].reason == "too few tokens"


def test_a_line_that_was_cut_off_is_dropped_and_asked_again(tmp_path):
    store = AnswerStore(tmp_path, STUDY, session("a"))
    store.append(question(0))
    store.append(question(1))
    file = tmp_path / "answers.jsonl"
    file.write_bytes(file.read_bytes()[:-30])
    again = AnswerStore(tmp_path, STUDY, session("b"))
    assert [one.document for one in again.contents.questions.values()] == [0]
    again.append(question(1, text="no"))
    last = AnswerStore(tmp_path, STUDY, session("c")).contents
    assert [one.answers[0].text for one in last.questions.values()] == ["yes", "no"]
    assert question(1).key == ("yes", "test", 1, "")


def test_without_a_directory_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = AnswerStore(None, STUDY, session("a"))
    store.append(question(0))
    assert len(store.contents.questions) == 1 and not list(tmp_path.iterdir())
