"""Ctrl-C at the borders of the context that notes it: neither lost, nor does it leave anything behind."""

from __future__ import annotations

import signal

import pytest

from scirocco.core import interrupt
from scirocco.core.interrupt import Interrupt, poll

INT, TERM = signal.SIGINT, signal.SIGTERM


@pytest.fixture
def terminated():
    """The calls of a handler of SIGTERM of the user's own."""
    calls = []
    before = signal.signal(TERM, lambda number, frame: calls.append(number))
    yield calls
    signal.signal(TERM, before)


@pytest.fixture
def press_at(monkeypatch):
    """``press_at(number, when, pressed)``: signals come just before or after the handler of ``number`` is changed."""
    change = signal.signal

    def pressing(number, when, pressed=(INT,)):
        def changed(changing, handler):
            before = change(changing, handler) if when == "after" else None
            if changing == number:
                monkeypatch.setattr(signal, "signal", change)
                for one in pressed:
                    signal.raise_signal(one)
            return change(changing, handler) if when == "before" else before

        monkeypatch.setattr(signal, "signal", changed)

    return pressing


def require_nothing_left(own):
    """Handlers are the user's, no context is entered, and the next one works."""
    assert signal.getsignal(INT) is signal.default_int_handler
    assert signal.getsignal(TERM) is own
    assert not interrupt._entered
    poll()
    with Interrupt() as again:
        assert not again.asked
        signal.raise_signal(INT)
        assert again.asked


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", [INT, TERM])
@pytest.mark.parametrize("second", [False, True])
def test_ctrl_c_while_the_context_is_left_is_not_lost(number, when, second, terminated, press_at):
    own, body = signal.getsignal(TERM), []

    def work():
        with Interrupt() as outer, Interrupt():
            if second:
                signal.raise_signal(INT)
            body.append(outer.asked)
            press_at(number, when)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert body == [second]
    require_nothing_left(own)
    assert not terminated


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", [INT, TERM])
def test_sigterm_and_ctrl_c_while_the_context_is_left(number, when, terminated, press_at):
    own = signal.getsignal(TERM)

    def work():
        with Interrupt():
            press_at(number, when, (TERM, INT))

    with pytest.raises(KeyboardInterrupt):
        work()
    assert terminated == [TERM]
    require_nothing_left(own)


def test_ctrl_c_before_the_context_is_entered_leaves_nothing_behind(terminated, press_at):
    press_at(INT, "before")
    with pytest.raises(KeyboardInterrupt), Interrupt():
        pytest.fail("the work began")
    require_nothing_left(signal.getsignal(TERM))


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("number", "when"), [(INT, "after"), (TERM, "before"), (TERM, "after")])
def test_ctrl_c_while_the_context_is_entered_is_noted(number, when, times, terminated, press_at):
    own = signal.getsignal(TERM)
    press_at(number, when, (INT,) * times)
    with Interrupt() as entered, Interrupt() as inside:
        assert entered.asked
        assert inside.asked
        with pytest.raises(KeyboardInterrupt):
            poll()
    require_nothing_left(own)
