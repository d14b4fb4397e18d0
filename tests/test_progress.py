"""The progress line."""

import pytest

from holdfast.progress import progress_bar


def test_the_line_says_what_else_takes_a_while_at_once_and_then_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar("certifying", 10, show=True) as line:
        line(3)
        assert capsys.readouterr().err == ""  # it is over soon, perhaps
        line.say("compiling once, about 40 s")
        assert "compiling once, about 40 s" in capsys.readouterr().err
        line.say("")
        line(7)
    assert "certifying" in capsys.readouterr().err


def test_nothing_is_shown_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("certifying", 10, show=False) as line:
        line(3)
        line.say("compiling once, about 40 s")
    assert capsys.readouterr().err == ""
