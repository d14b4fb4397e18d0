"""Methods by the names that tables, stored runs and the command line use."""

from holdfast.bands import DKW, Band, BerkJones, Empirical
from holdfast.bounds.best_of import BestOf
from holdfast.bounds.cdf import CDF
from holdfast.bounds.method import Method, check_method
from holdfast.bounds.naive import Naive
from holdfast.bounds.star import Star
from holdfast.bounds.tangents import Tangent, Tangents
from holdfast.errors import InvalidArgument
from holdfast.means import Betting, EmpiricalBernstein, EmpiricalMean, Hoeffding, MeanBound

_BANDS: dict[str, Band] = {band.name: band for band in (BerkJones(), DKW(), Empirical())}
_MEANS: dict[str, MeanBound] = {
    mean.name: mean for mean in (EmpiricalBernstein(), Betting(), EmpiricalMean(), Hoeffding(), Star())
}


def band_names() -> tuple[str, ...]:
    """The bands that give certificates."""
    return tuple(name for name, band in _BANDS.items() if band.guaranteed)


def band_named(name: str) -> Band:
    """A band from its name."""
    if name not in _BANDS:
        raise InvalidArgument(f"unknown band {name!r}; expected one of {', '.join(band_names())}")
    return _BANDS[name]


def method_named(name: str) -> Method:
    """A method from its own ``name``: ``cdf-dkw``, ``cdf-dkw-10000``, ``naive-hoeffding``, ..."""
    if "+" in name:
        return BestOf(tuple(method_named(part) for part in name.split("+")))
    theorem, _, rest = name.partition("-")
    if theorem == "naive" and rest in _MEANS:
        return Naive(mean=_MEANS[rest])
    if theorem == "cdf":
        band, _, count = rest.rpartition("-")
        if count.isdecimal() and band in _BANDS:
            return CDF(band=_BANDS[band], thresholds=int(count))
        if rest in _BANDS:
            return CDF(band=_BANDS[rest])
    if name == "tangents":
        return Tangents()
    if theorem == "tangent" and _is_number(rest):
        return Tangent(radius=float(rest))
    known = [f"cdf-{band}" for band in _BANDS] + [f"naive-{mean}" for mean in _MEANS] + ["tangents", "tangent-RADIUS"]
    raise InvalidArgument(f"unknown method {name!r}; expected one of {', '.join(known)}")


def as_method(method: Method | str) -> Method:
    """A method as it is, or from its name."""
    if isinstance(method, str):
        return method_named(method)
    check_method(method)
    return method


def _is_number(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False
