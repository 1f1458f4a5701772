"""The tokens as the page's script reads them."""

import json
from base64 import b64decode

import numpy as np

from trio_profile.findings.blocks import Grid, TokenMap, Tokens, TokenStage
from trio_profile.render.token_data import token_data


def test_bytes_are_base64_and_kept_tokens_are_bits():
    first = TokenStage(1, "kept 2 of 9", bytes([1, 0, 0, 0, 0, 0, 0, 0, 1]), bytes(range(9)), "0", "8")
    second = TokenStage(3, "kept 0 of 9", bytes(9), merges=True, merged_into=[-1, 0, 70_000] + [0] * 6)
    third = TokenStage(5, "kept 0 of 9", bytes(9), merges=True)
    one = TokenMap("trio", 0.25, "25.0 %", "said", [first, second, third])
    block = Tokens("tokens", "", "", 9, [Grid("", 3, 3)], [one], ["trio"], picture="data:,")
    found = json.loads(token_data(block))
    assert found["picture"] == "data:," and found["count"] == 9 and found["shown"] == ["trio"]
    assert found["grids"] == [{"name": "", "rows": 3, "columns": 3, "first": 0, "newline": False}]
    (drawn,) = found["maps"]
    assert (drawn["method"], drawn["retention"], drawn["where"]) == ("trio", 0.25, "25.0 %")
    assert b64decode(drawn["stages"][0]["kept"]) == bytes([0b10000000, 0b10000000])
    assert b64decode(drawn["stages"][0]["scores"]) == bytes(range(9)) and "merges" not in drawn["stages"][0]
    assert np.frombuffer(b64decode(drawn["stages"][1]["into"]), "<i4").tolist() == [-1, 0, 70_000] + [0] * 6
    assert drawn["stages"][2]["into"] == "" and "scores" not in drawn["stages"][2]
