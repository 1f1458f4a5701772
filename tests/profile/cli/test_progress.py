import io
from types import SimpleNamespace

from trio_profile.cli.progress import LINE_SECONDS, TimeLeft, plain_lines, progress
from trio_profile.progress import Step


def test_the_time_left_moves_while_a_step_runs_and_follows_how_long_finished_ones_took():
    clock = SimpleNamespace(now=0.0)
    left = TimeLeft(lambda: clock.now)
    left.see(Step("loading pocket"))
    assert left.seconds() is None  # nothing is known
    left.see(Step("trio at 0.22", done=0, total=60))
    assert left.seconds() == 60
    clock.now = 5
    assert left.seconds() == 55
    clock.now = 100
    assert left.seconds() == 0
    left.see(Step("trio at 0.33", done=10, total=60))
    assert left.seconds() == 500  # as slow as the first ten


def test_the_first_step_is_said_at_once_and_further_ones_now_and_then():
    clock, stream = SimpleNamespace(now=0.0), io.StringIO()
    watch = plain_lines(stream, lambda: clock.now)
    watch(Step("loading pocket"))
    assert stream.getvalue() == "trio-profile: loading pocket\n"
    for second in range(60):
        clock.now = second
        watch(Step(f"pair {second}", done=second, total=60))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1 + 59 // LINE_SECONDS
    assert lines[1] == "trio-profile: pair 15, about 45 s left"


def test_a_file_gets_plain_lines(capsys):
    with progress() as watch:
        watch(Step("loading [pocket]"))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "trio-profile: loading [pocket]\n")


def test_a_terminal_gets_a_line_that_moves(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    with progress() as watch:
        watch(Step("[loading] pocket"))
        watch(Step("trio at 0.22: pair 3", done=10, total=130))
    shown = terminal.getvalue()
    assert "trio at 0.22: pair 3" in shown
    assert "about 2 min 00 s left" in shown
