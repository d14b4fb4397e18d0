"""Methods' names for people."""

from holdfast.bounds.named import method_named

LABEL_METHOD = "votes-clopper-pearson"
_TITLES = {
    "cdf-berk-jones": "CDF (Berk-Jones)",
    "cdf-dkw": "CDF (DKW)",
    "cdf-empirical": "CDF, exact*",
    "naive-hoeffding": "naive (Hoeffding)",
    "naive-empirical-mean": "naive, best case*",
    LABEL_METHOD: "votes (Cohen)",
}


def method_title(method: str) -> str:
    """A method's name for a table; a star marks an estimate that is not a certificate."""
    return _TITLES.get(method, method)


def method_description(method: str) -> str:
    """The same for a legend, with the star in words."""
    title = method_title(method).rstrip("*")
    return title if guaranteed(method) else f"{title} (not certified)"


def guaranteed(method: str) -> bool:
    """Whether what the method gives is certified."""
    return method == LABEL_METHOD or method_named(method).guaranteed
