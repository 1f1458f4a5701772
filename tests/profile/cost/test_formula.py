from dataclasses import replace

from trio_core.rules.cost import LayerShape
from trio_core.rules.schedule import Schedule
from trio_profile.cost.formula import fastv_inference, fastv_macs, fastv_overhead, kv_bytes, layer_macs

D, M = 4096, 11008


def test_baselines_of_the_paper_to_every_printed_digit():
    assert 32 * fastv_macs(576, D, M) == 2_986_076_012_544  # printed 2.98 T: truncated
    assert 32 * fastv_macs(2880, D, M) == 16_669_841_817_600  # printed 16.67 T


def test_the_work_of_one_layer_is_the_one_worked_out_by_hand():
    # n = 2, d = 3, m = 5: 4·2·9 = 72, 2·4·3 = 24, 2·2·3·5 = 60
    assert fastv_macs(2, 3, 5) == 156


def test_published_budgets_give_exact_integers():
    """Budgets of TRIO's public repository (ocy1/TRIO at ec85d99). The integers are worked out apart from this code."""
    for budgets, inference, overhead in (
        ((92, 54, 22), 325_651_333_120, 116_371_914_752),
        ((218, 128, 54), 651_544_035_328, 148_259_504_128),
    ):
        schedule = Schedule((1, 10, 15), budgets, 576, 32)
        assert fastv_inference(schedule.tokens_by_layer, D, M) == inference
        assert fastv_overhead((576, *budgets[:2]), D, M) == overhead
    assert fastv_overhead((576, 92, 54), D, M, gamma=1.5) == 174_557_872_128


def test_a_decimal_gamma_is_taken_as_written():
    # 1.1 has no exact binary form; the product is of the decimal that was asked for.
    assert fastv_overhead((10,), 10, 10, gamma=1.1) == 8800
    assert fastv_macs(10, 10, 10) == 8000


def test_the_work_of_a_layer_allows_for_grouped_keys_and_the_gate():
    plain = LayerShape(D, M, query_width=D, kv_width=D, heads=32, vocabulary=32000, ffn_matrices=2)
    ungrouped = layer_macs(576, plain)
    assert ungrouped == fastv_macs(576, D, M)
    gated = layer_macs(576, replace(plain, ffn_matrices=3))
    assert gated - ungrouped == 576 * D * M
    grouped = layer_macs(576, replace(plain, ffn_matrices=3, kv_width=512))
    assert gated - grouped == 2 * 576 * D * (D - 512)


def test_cache_bytes_are_those_of_the_paper():
    # 318 MB printed for 576 + 60 tokens, 62 MB for 64 + 60 on average: MiB, float16, text included.
    assert kv_bytes([636] * 32, 4096, 2) == 318 * 2**20
    schedule = Schedule.average(retention=64 / 576, visual_tokens=576, num_layers=32)
    assert kv_bytes([n + 60 for n in schedule.tokens_by_layer], 4096, 2) == 62 * 2**20
