from itertools import permutations

import pytest

from tests.profile.studying import make
from trio_profile.errors import StudyError
from trio_profile.records.store import to_toml
from trio_profile.records.study import Study
from trio_profile.study import asked
from trio_profile.study.kinds import KINDS

REFUSED = [
    ("sweep", {"retentions": (1.5,)}, "retentions.0 = 1.5"),
    ("sweep", {"retentions": ()}, "retentions is empty"),
    ("sweep", {"methods": ()}, "methods is empty"),
    ("sweep", {"dtype": "float8"}, "dtype = 'float8'"),
    ("sweep", {"batch": 0}, "batch = 0"),
    ("sweep", {"precision": 0}, "precision = 0"),
    ("sweep", {"gamma": float("nan")}, "gamma = nan"),
    ("sweep", {"text_tokens": "many"}, "text_tokens = 'many'"),
    ("layers", {"retentions": ()}, "retentions is empty"),
    ("sweep", {"engine": "workers"}, "engine = 'workers': a study names none; leave it out, and give --engine ray"),
    ("sweep", {"retention": 0.1}, "retention = 0.1: a study has no such field; did you mean retentions?"),
    ("flops", {"tasks": ("pope",)}, "tasks = ('pope',): a study of kind 'flops' has no such field"),
    ("audit", {"claims": "fastv", "model": "pocket-deep"}, "a study of kind 'audit' has no such field"),
    ("flops", {"retentions": (0.2, 0.5)}, "flops measures one retention"),
    ("ablate", {"methods": ("trio", "grid")}, "methods"),
    ("sweep", {"fidelity_inputs": 5}, "--asked 5: 5 questions with answers; an interval needs at least 10"),
    ("sweep", {"questions": ("a.jsonl", "b.jsonl")}, "questions = a.jsonl, b.jsonl: sweep takes one file"),
]


@pytest.mark.parametrize(("kind", "fields", "says"), [case for case in REFUSED if case[0] in KINDS])
def test_a_bad_or_foreign_field_is_named_with_its_value_before_the_model_is_loaded(kind, fields, says):
    with pytest.raises(StudyError) as caught:
        make(kind, **fields)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_study_file_is_read_and_one_that_cannot_be_read_is_named(tmp_path):
    file = tmp_path / "study.toml"
    with pytest.raises(StudyError, match="does not exist"):
        asked.read(file)
    file.write_text("retentions = [0.2")
    with pytest.raises(StudyError, match="not TOML"):
        asked.read(file)
    file.write_text('model = "pocket"\nretentions = [0.2, 0.5]\n[options]\nthreshold = 0.9\n')
    assert asked.make("sweep", {}, file) == Study(retentions=(0.2, 0.5), options={"threshold": 0.9})


def test_a_study_file_of_each_kind_is_refused_by_name_by_every_other_kind(tmp_path):
    file = tmp_path / "study.toml"
    for kind, other in permutations(KINDS, 2):
        file.write_text(f'verb = "{other}"\n')
        with pytest.raises(StudyError, match=f"is of kind '{other}', not '{kind}': run `trio-profile {other} --study"):
            asked.make(kind, {}, file)


def test_what_is_given_overrides_the_file_and_the_file_overrides_the_kind(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text("seconds = 2.0\nseed = 3\n")
    study = asked.make("ablate", {"seed": 4}, file)
    assert (study.verb, study.seed, study.seconds, study.retentions) == ("ablate", 4, 2.0, (0.111,))


def test_a_study_that_was_kept_can_be_asked_again(tmp_path):
    file, files = tmp_path / "study.toml", (tmp_path / "a", tmp_path / "b")
    for one in files:
        one.touch()
    for kind, fields in (
        ("flops", {"retentions": (0.5,)}),
        ("audit", {"claims": "fastv"}),
        ("theory", {"questions": tuple(map(str, files))}),
    ):
        if kind in KINDS:
            study = asked.make(kind, fields)
            file.write_text(to_toml(study))
            assert asked.make(kind, {}, file) == study
