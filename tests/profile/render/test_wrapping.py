from trio_profile.render.wrapping import lines, unbroken


def test_no_line_ends_inside_an_interval_or_before_a_unit():
    text = "prefill 1.74× faster [1.73, 1.76], 12.0 points less [−18.0, −6.7], 22.2 % of 318 MiB in 24.0 ms"
    for width in range(24, len(text) + 1):
        found = lines(text, width)
        assert " ".join(found) == text and max(map(len, found)) <= width
        joined = "\n".join(found)
        assert all(part in joined for part in ("[1.73, 1.76]", "[−18.0, −6.7]", "22.2 %", "318 MiB", "24.0 ms"))


def test_an_empty_text_is_one_empty_line():
    assert lines("", 80) == [""] and unbroken("plain words") == "plain words"
