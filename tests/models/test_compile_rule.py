"""When compiling pays, from seconds and counts alone."""

import math

import pytest

from holdfast.models.compile_rule import CompileRule


def switches(rule: CompileRule, inputs: int, seconds: float, *, known: bool = True) -> int | None:
    """After how many inputs of one call, which take so long each, the rule says to compile; None if it never does."""
    rule.begin()
    for done in range(inputs):
        if rule.pays(inputs - done if known else None):
            return done
        rule.learn(seconds)
    return None


@pytest.mark.parametrize(
    ("inputs", "seconds", "after"),
    [(1, 1e6, None), (20, 1.6, None), (75, 1.6, None), (80, 1.6, 3), (500, 1.6, 3), (2, 121, 1)],
)
def test_with_inputs_known_it_compiles_after_a_few_if_the_rest_saves_more_than_it_costs(
    inputs: int, seconds: float, after: int | None
) -> None:
    assert switches(CompileRule(cost=40, gain=1.5), inputs, seconds) == after


def test_the_time_of_an_input_is_that_of_this_call() -> None:
    rule = CompileRule(cost=40, gain=1.5)
    assert switches(rule, 2, 10.0) is None
    assert switches(rule, 2, 1_000.0) == 1
    assert switches(rule, 100, 0.1) == 0  # more than compiling costs was spent by then


def test_single_calls_are_compiled_once_as_much_was_spent_as_compiling_costs() -> None:
    rule = CompileRule(cost=40, gain=1.5)
    calls = [switches(rule, 1, 3.0, known=known) for known in (True, False) * 10]
    assert calls == [None] * 14 + [0] * 6


def test_where_nobody_knows_what_is_left_as_much_is_expected_as_was_done() -> None:
    assert switches(CompileRule(cost=40, gain=1.5), 100, 3.0, known=False) == 14


@pytest.mark.parametrize("gain", [1.1, 1.5, 3.0])
def test_it_costs_little_more_than_twice_the_best_choice(gain: float) -> None:
    for calls in range(1, 400, 7):
        after = switches(CompileRule(40.0, gain), calls, 1.0, known=False)
        took = calls if after is None else after + 40 + (calls - after) / gain
        assert took <= 2 * min(calls, 40 + calls / gain) + 1


def test_what_was_compiled_stays_so_and_one_that_never_compiles_never_does() -> None:
    rule = CompileRule(cost=40, gain=1.5)
    assert rule.pays(None) is False
    rule.learn(50)
    assert rule.pays(None)
    rule.compiled = True
    rule.begin()
    assert rule.pays(1)
    never = CompileRule()
    assert never.cost == math.inf
    assert switches(never, 1_000, 1e9) is None
    assert switches(never, 1_000, 1e9, known=False) is None
