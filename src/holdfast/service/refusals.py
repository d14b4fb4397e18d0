"""Error responses: a status, and a message that says what was expected, what came and what to do."""

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import Scope

from holdfast.errors import HoldfastError

_MEANINGS = {
    400: "The body is not what its type says it is.",
    401: "No key, or another one.",
    403: "Asked by a page of another site, or switched off by the operator.",
    404: "There is nothing of that name.",
    408: "The body did not arrive in time.",
    409: "The request was stopped.",
    413: "More bytes than are taken.",
    415: "A type that is not read here.",
    422: "Well formed, but not a question or an input for this model.",
    429: "This caller's share of the queue is full.",
    503: "Not finished within the time a request may take.",
}
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}, 503: {"Retry-After": "10"}}
_PROBLEM = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}


class Refusal(HoldfastError):
    """A request that is not answered, and the HTTP status for it; nothing else is disturbed by it."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def error_response(scope: Scope, status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    """The form that every refusal and failure has; the reason is left in the scope, for the log."""
    scope["refused"] = reason
    # Escaped to ASCII: a reason may quote text of the caller's that UTF-8 cannot write.
    return Response(json.dumps({"error": reason}), status, headers or _HEADERS.get(status), "application/json")


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """These refusals in the OpenAPI document, all of one form."""
    return {
        status: {"description": _MEANINGS[status], "content": {"application/json": {"schema": _PROBLEM}}}
        for status in statuses
    }
