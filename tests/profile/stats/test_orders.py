from itertools import islice

from trio_profile.stats.orders import balanced_orders


def test_two_sides_alternate_in_blocks_of_two_rounds_in_an_order_that_the_seed_draws():
    orders = list(islice(balanced_orders(5), 200))
    blocks = list(zip(orders[::2], orders[1::2], strict=True))
    assert all(set(block) == {(0, 1), (1, 0)} for block in blocks)
    assert 30 < sum(block[0] == (0, 1) for block in blocks) < 70
    assert orders == list(islice(balanced_orders(5), 200)) != list(islice(balanced_orders(6), 200))
