import json

import pytest

from trio_profile.text import LONGEST_LINE, first_line, one_line, printable, printable_json, with_option


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("trio × 0.5, γ = 1 …\n\tnext", "trio × 0.5, γ = 1 …\n\tnext"),
        ("\x1b[31mred\x07\r", "\\x1b[31mred\\x07\\r"),
        ("\u202egnp.exe\u2028", "\\u202egnp.exe\\u2028"),
        ("\udcff\x9b", "\\udcff\\x9b"),
        ("👩\u200d🔬", "👩\u200d🔬"),
    ],
)
def test_control_and_direction_characters_become_escapes_and_nothing_else_changes(text, shown):
    assert printable(text) == shown


def test_a_json_text_keeps_its_meaning_when_its_characters_become_escapes():
    document = {"name": "\x7f\x9b[31m\u202e × 💥"}
    text = json.dumps(document, ensure_ascii=False)
    safe, plain = printable_json(text), printable_json(text, "ascii")
    assert json.loads(safe) == json.loads(plain) == document
    assert safe == printable(safe) and "×" in safe
    assert plain.isascii()


def test_a_long_line_is_cut_in_its_middle():
    line = one_line("begin " + "x\n" * LONGEST_LINE + "end")
    assert len(line) <= LONGEST_LINE
    assert line.startswith("begin x x") and " … " in line and line.endswith("x end")


class Mute(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("\n\n  the reason\nmore"), "the reason"),
        (ValueError(""), "ValueError"),
        (ValueError("\n \n"), "ValueError"),
        (Mute(), "Mute"),
    ],
)
def test_the_first_line_of_an_error_is_never_empty(error, said):
    assert first_line(error) == said


def test_an_option_of_a_command_is_replaced_or_added():
    command = "trio-profile sweep --seconds 2 --out 'a b'"
    assert with_option(command, "seconds", "9") == "trio-profile sweep --out 'a b' --seconds 9"
    assert with_option(command, "out", "ANOTHER") == "trio-profile sweep --seconds 2 --out ANOTHER"
    assert with_option(command, "asked", "60") == f"{command} --asked 60"
    assert with_option("trio-profile x --out=a --out-other b", "out", "") == "trio-profile x --out-other b"
