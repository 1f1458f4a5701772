"""Some spoiled inputs. `python -m tests.fuzz` runs thousands."""

import pytest

from tests.core.tiny import fast_first
from tests.fuzz.cases import Corpus
from tests.fuzz.in_process import faults_of

INPUTS, PARTS = 240, 24


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize("part", fast_first(range(PARTS), 0))
def test_no_input_ends_in_a_traceback_or_in_a_verdict_that_no_judge_gave(part: int, corpus: Corpus):
    results = {seed: faults_of(corpus, seed) for seed in range(part, INPUTS, PARTS)}
    assert {seed: (case.arguments, faults) for seed, (case, _, faults) in results.items() if faults} == {}
