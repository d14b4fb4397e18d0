"""Methods' names for people."""

from collections.abc import Iterable, Sequence

from holdfast.bounds.method import Method
from holdfast.bounds.named import as_method

LABEL_METHOD = "votes-clopper-pearson"
_TITLES = {
    "cdf-berk-jones": "CDF (Berk-Jones)",
    "cdf-dkw": "CDF (DKW)",
    "cdf-empirical": "CDF, exact*",
    "naive-hoeffding": "naive (Hoeffding)",
    "naive-empirical-mean": "naive, best case*",
    LABEL_METHOD: "votes (Cohen)",
}


def method_name(method: Method | str) -> str:
    """A method's own name."""
    return method if isinstance(method, str) else as_method(method).name


def several(methods: Sequence[Method | str] | Method | str) -> tuple[Method | str, ...]:
    """Methods or their names; a single one will do. Refused if one is no method."""
    found = (methods,) if isinstance(methods, str) or not isinstance(methods, Iterable) else tuple(methods)
    for method in found:
        guaranteed(method)
    return found


def method_title(method: Method | str) -> str:
    """A method's name for a table; a star marks an estimate that is not a certificate."""
    name = method_name(method)
    return _TITLES.get(name, name)


def method_description(method: Method | str) -> str:
    """The same for a legend, with the star in words."""
    title = method_title(method).rstrip("*")
    return title if guaranteed(method) else f"{title} (not certified)"


def guaranteed(method: Method | str) -> bool:
    """Whether what the method gives is certified."""
    return method == LABEL_METHOD or as_method(method).guaranteed
