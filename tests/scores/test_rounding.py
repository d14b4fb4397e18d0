from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.scores.rounding import ceil_decimals, floor_decimals, floor_significant

numbers = st.floats(-1, 1, allow_nan=False)


@given(numbers, st.integers(0, 6))
def test_printed_lower_bounds_are_never_above_and_upper_never_below(value: float, decimals: int) -> None:
    assert Decimal(floor_decimals(value, decimals)) <= Decimal(repr(value)) <= Decimal(ceil_decimals(value, decimals))
    assert float(ceil_decimals(value, decimals)) - float(floor_decimals(value, decimals)) <= 10.0**-decimals * 1.0001


@given(numbers, st.integers(1, 6))
def test_significant_digits_are_cut_downwards_and_cutting_twice_changes_nothing(value: float, digits: int) -> None:
    cut = floor_significant(value, digits)
    assert cut <= value
    assert floor_significant(cut, digits) == cut
    assert cut == pytest.approx(value, rel=2 * 10.0 ** (1 - digits))


def test_the_fields_mistake_is_not_repeated() -> None:
    assert floor_decimals(0.8996, 3) == "0.899"
    assert floor_decimals(-0.1241, 3) == "-0.125"
    assert ceil_decimals(0.8991, 3) == "0.900"
    assert floor_significant(0.8996, 3) == 0.899
    assert floor_decimals(-0.0, 2) == "0.00"
