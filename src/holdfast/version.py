"""The version, as installed."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def installed_version() -> str:
    """The distribution's version; ``0+source`` when run from a source tree that is not installed."""
    try:
        return version("holdfast-certify")
    except PackageNotFoundError:
        return "0+source"


__version__ = installed_version()
