"""What is refused because it is another study."""

from pathlib import Path

import pytest

from tests.profile.examples import session, study
from trio_profile.errors import StoreError
from trio_profile.records.differences import require_same, require_same_inputs
from trio_profile.records.schema import FileDigest

ASKED = study(model="my/model", image="cat.png", questions="q.jsonl", task_path="mine", match="mine:rule")


def files(**sizes: int) -> dict[str, FileDigest]:
    return {name.replace("__", "/"): FileDigest(bytes=size, sha256="0") for name, size in sizes.items()}


def test_a_file_that_changed_is_named():
    for before, now, says in (
        (
            files(model__weights=12),
            files(model__weights=14),
            "the checkpoint my/model has changed since out was measured (weights); choose another --out",
        ),
        (files(questions=1), files(questions=2), "the questions q.jsonl have changed"),
        (files(tasks__a=1), files(tasks__b=1), "(a, b)"),
        (files(model__a=1), files(model__a=1, model__b=1), "(b)"),
        (files(match=1), files(match=2), "the file of mine:rule has changed since out was measured (mine:rule)"),
        (files(image=1), {"image": FileDigest(bytes=1, sha256="1")}, "(cat.png)"),
    ):
        with pytest.raises(StoreError) as caught:
            require_same_inputs(ASKED, [session(inputs=before)], now, "out")
        assert says in str(caught.value)


def test_what_has_no_digest_on_one_side_is_not_compared():
    require_same_inputs(ASKED, [session()], files(model__weights=12), "out")
    require_same_inputs(ASKED, [session(inputs=files(model__weights=12))], files(image=3), "out")
    require_same_inputs(ASKED, [], files(model__weights=12), "out")


def test_a_study_with_another_rule_for_answers_names_the_one_that_it_has():
    with pytest.raises(
        StoreError, match=r"match \('exact' there, 'normalised' here\); give --match exact, or choose an"
    ):
        require_same("study", {"match": "exact", "seed": 0}, {"match": "normalised", "seed": 0}, Path("out"))
    with pytest.raises(StoreError, match=r"seed \(1 there, 0 here\); choose another --out"):
        require_same("study", {"match": "exact", "seed": 1}, {"match": "normalised", "seed": 0}, Path("out"))
