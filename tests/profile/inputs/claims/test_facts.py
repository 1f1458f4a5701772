import pytest

from trio_profile.inputs.claims.claims import Model
from trio_profile.inputs.claims.facts import known_counts, shape


@pytest.fixture(scope="module")
def counts() -> dict[int, list[str]]:
    vicuna = Model(layers=32, hidden=4096, intermediate=11008, heads=32, vocab=32064, visual_tokens=2928)
    return known_counts(shape(vicuna))


def test_the_papers_own_numbers_are_known(counts: dict[int, list[str]]):
    assert any("trio-2026" in source for source in counts[2880])
    assert any("llava-1.5-7b" in source for source in counts[576])


def test_the_average_that_a_dense_cache_has_room_for_is_known(counts: dict[int, list[str]]):
    # 1156 MiB at 0.5 MiB a token are 2312 tokens, 60 of them text.
    assert counts[2312 - 60] == ["the average in the dense cache of llava-next-7b in trio-2026"]


def test_a_decoder_of_other_sizes_has_no_known_number():
    other = Model(layers=30, hidden=4096, intermediate=11008, heads=32, vocab=32064, visual_tokens=576)
    assert known_counts(shape(other)) == {}
