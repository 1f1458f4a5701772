"""Questions have one answer, and the words to find it."""

import numpy as np
import pytest

from trio_profile.inputs.pocket.grammar import ENDING, MOST_HOPS, WORDS, ask, exam
from trio_profile.inputs.pocket.scenes import PROPERTIES, VALUES, Scene, scene


def answers(shown: Scene, text: str) -> list[set[str]]:
    """What is found at each hop, by reading the words alone: a solver that knows nothing of routes."""
    words = text.removesuffix(f" {ENDING}").split()
    assert words[:2] == ["at", "the"]
    named = {of: word for word in words[2:4] for of in PROPERTIES if word in VALUES[of]}
    at = [thing for thing in shown.things if all(thing[of] == value for of, value in named.items())]
    found = []
    for k in range(4, len(words) - 2, 5):
        by, sought, to, the, word = words[k : k + 5]
        assert (by, to, the) == ("by", "to", "the")
        given = next(of for of in PROPERTIES if word in VALUES[of])
        found.append({thing[sought] for thing in at})
        at = [
            other
            for other in shown.things
            for thing in at
            if other != thing and other[given] == word and other[sought] == thing[sought]
        ]
    assert words[-2] == "which"
    return [*found, {thing[words[-1]] for thing in at}]


@pytest.mark.parametrize("hops", range(1, MOST_HOPS + 1))
def test_a_reader_of_the_words_finds_the_one_answer(hops: int):
    rng = np.random.default_rng(hops)
    for seed in range(60):
        shown = scene(seed)
        asked = ask(shown, hops, rng)
        assert answers(shown, asked.text) == [{value} for value in asked.values]
        assert asked.answer == asked.values[-1]
        assert len(asked.values) == hops
        assert set(asked.text.split()) | {asked.answer} <= set(WORDS)


def test_the_exam_is_three_kinds_in_turn_each_of_another_picture_and_held_out():
    questions = exam(9)
    assert [question.kind for question in questions] == ["3 hops", "1 hop", "2 hops"] * 3
    assert len({question.picture().tobytes() for question in questions}) == 9
    assert [question.text for question in exam(4)] == [question.text for question in questions[:4]]


def test_no_answer_is_much_likelier_than_others():
    """A model that sees nothing gets at most what the commonest value of the asked property has."""
    questions = exam(900)
    for of in PROPERTIES:
        given = [q.answer for q in questions if f"which {of} " in q.text]
        assert max(given.count(value) for value in VALUES[of]) / len(given) < 0.2
