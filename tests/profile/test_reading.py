import os
import re

import pytest

from trio_profile.reading import DEEPEST, LARGEST_INTEGER, is_regular, parse_json, parse_toml, read_bytes, read_text


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, make):
    make(tmp_path / "odd")
    assert not is_regular(tmp_path / "odd")
    with pytest.raises(OSError) as refused:
        read_bytes(tmp_path / "odd")
    assert refused.value.strerror


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 3000, "a\x00b", "nowhere"])
def test_a_name_that_no_file_has_is_an_error_of_the_system(tmp_path, name):
    assert not is_regular(tmp_path / name)
    with pytest.raises(OSError):
        read_bytes(tmp_path / name)


def test_a_file_that_is_too_large_is_refused(tmp_path):
    (tmp_path / "large").write_bytes(b"12345")
    assert read_bytes(tmp_path / "large", 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_bytes(tmp_path / "large", 4)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    (tmp_path / "text").write_bytes(b"\xef\xbb\xbf{}")
    assert read_text(tmp_path / "text") == "{}"
    (tmp_path / "text").write_bytes(b"ab\xff")
    with pytest.raises(ValueError, match="byte 2 is not UTF-8"):
        read_text(tmp_path / "text")


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("depth", [DEEPEST + 1, 900, 100_000])
def test_deep_nesting_is_refused(depth):
    for parse, text in ((parse_json, nested(depth)), (parse_toml, f"a = {nested(depth)}")):
        with pytest.raises(ValueError, match="nests deeper than 64"):
            parse(text)
    assert parse_json(nested(DEEPEST - 1))


@pytest.mark.parametrize("number", [str(LARGEST_INTEGER + 1), "-" + "9" * 30, "9" * 5000])
def test_an_integer_beyond_64_bits_is_refused(number):
    for parse, text in ((parse_json, f'{{"a": [{number}]}}'), (parse_toml, f"a = [{number}]")):
        with pytest.raises(ValueError, match="integer"):
            parse(text)
    assert parse_json(str(LARGEST_INTEGER)) == LARGEST_INTEGER


@pytest.mark.parametrize("number", ["5e-324", "-1e-101", "1.7e308", "-1e101"])
def test_a_number_whose_quotients_are_not_finite_is_refused(number):
    for parse, text in ((parse_json, f'{{"a": [{number}]}}'), (parse_toml, f"a = [{number}]")):
        refusal = f"it contains {float(number):g}; numbers from 1e-100 to 1e+100 can be read"
        with pytest.raises(ValueError, match=re.escape(refusal)):
            parse(text)
    assert parse_json("[0.0, -1e-99, 1e99]") == [0.0, -1e-99, 1e99]


@pytest.mark.parametrize("text", ["NaN", '["\\ud800"]', '{"\\ud800": 1}', "", "{", b"\xff\xfe", "[1e999]"])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ValueError):
        parse_json(text)


def test_a_name_that_an_object_has_twice_is_refused_where_names_are_unique():
    many = "".join(f'"{number}": 0, ' for number in range(40_000))  # a comparison of all pairs would take a minute
    for text in ('{"a": 1, "a": 1}', '[{"b": {"a": 1, "c": 2, "a": 3}}]', f'{{{many}"a": 0, "a": 0}}'):
        with pytest.raises(ValueError, match="it contains 'a' twice in one object"):
            parse_json(text, unique=True)
        parse_json(text)


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e999"])
def test_toml_holds_no_number_that_is_not_finite(value):
    with pytest.raises(ValueError, match="not finite"):
        parse_toml(f"a = {value}")
