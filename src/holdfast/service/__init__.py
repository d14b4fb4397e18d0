"""The service: one process that is both a page and an HTTP API; needs the extra ``serve``."""

from importlib.util import find_spec

from holdfast.errors import InvalidArgument, how_to_install

_missing = [name for name in ("fastapi", "prometheus_client", "uvicorn") if find_spec(name) is None]
if _missing:
    raise InvalidArgument(f"serving needs {' and '.join(_missing)}: {how_to_install('serve')}")
