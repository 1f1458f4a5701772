from collections import Counter
from itertools import islice, pairwise

import pytest

from trio_profile.stats.orders import balanced_orders, williams_design


@pytest.mark.parametrize("n", range(2, 26))
def test_each_member_follows_each_other_one_equally_often_and_stands_equally_often_at_each_place(n: int):
    length = 2 * len(williams_design(n))
    assert length == (2 * n if n % 2 else n)
    members = [f"method {number}" for number in range(n)]
    orders = balanced_orders(members, seed=3)
    for _ in range(2):
        block = list(islice(orders, length))
        assert all(sorted(order) == sorted(members) for order in block)
        follows = Counter(pair for order in block for pair in pairwise(order))
        assert set(follows.values()) == {length // n}
        assert len(follows) == n * (n - 1)
        places = Counter((member, place) for order in block for place, member in enumerate(order))
        assert set(places.values()) == {length // n}


@pytest.mark.parametrize("n", range(2, 26))
def test_each_second_round_is_the_reverse_of_the_round_before_it(n: int):
    orders = list(islice(balanced_orders(range(n), seed=7), 4 * n))
    assert all(first == second[::-1] for first, second in zip(orders[::2], orders[1::2], strict=True))


def test_one_member_is_every_round():
    assert list(islice(balanced_orders(["dense"], 0), 3)) == [["dense"]] * 3


def test_two_members_alternate_in_blocks_of_two_rounds():
    orders = [tuple(order) for order in islice(balanced_orders([None, 0], 5), 200)]
    blocks = list(zip(orders[::2], orders[1::2], strict=True))
    assert all(set(block) == {(None, 0), (0, None)} for block in blocks)
    assert 30 < sum(block[0] == (None, 0) for block in blocks) < 70  # the order within a block is random


def test_the_seed_fixes_the_orders():
    def first(seed: int) -> list[list[int]]:
        return list(islice(balanced_orders(range(5), seed), 20))

    assert first(1) == first(1)
    assert first(1) != first(2)
