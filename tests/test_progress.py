"""The progress line."""

import sys
from types import SimpleNamespace

import pytest

from holdfast import progress
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
    for show in (False, None):
        with progress_bar("certifying", 10, show=show) as line:
            line(3)
            line.say("compiling once, about 40 s")
    assert capsys.readouterr().err == ""


def test_in_a_pipe_a_line_comes_now_and_then_the_later_the_rarer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with progress_bar("certifying", 3_600, show=True) as line:
        for _ in range(3_600):
            now[0] += 1.0
            line(1)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "certifying: 2 of 3,600 copies, 1 copies/s, 60 min left"
    assert said[-1] == "certifying: 3,600 of 3,600 copies in 60 min"
    assert 60 < len(said) < 80
    assert "\x1b" not in "".join(said)


def test_a_notebook_shows_a_bar_that_goes_when_the_work_is_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []

    def display(data: dict[str, str], **_: object) -> SimpleNamespace:
        shown.append(data["text/html"])
        return SimpleNamespace(update=lambda data, **_: shown.append(data["text/html"]))

    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    with progress_bar("certifying <b>", 10) as line:
        line(3)
        assert shown == []
        line.say("compiling once")
        line.say("")
    assert 'value="3" max="10"' in shown[0]
    assert "certifying &lt;b&gt;: compiling once" in shown[0]
    assert shown[-1] == ""
    assert capsys.readouterr().err == ""
