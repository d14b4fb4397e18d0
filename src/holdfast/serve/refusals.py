"""Error responses: a status, and a message that says what was expected, what came and what to do."""

import json
from collections.abc import Mapping

from starlette.responses import Response

from holdfast.errors import HoldfastError


def error_response(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    """The form that every refusal and failure has."""
    # Escaped to ASCII: a reason may quote text of the caller's that UTF-8 cannot write.
    return Response(json.dumps({"error": reason}), status, headers, "application/json")


class Refusal(HoldfastError):
    """A request that is not answered; nothing else is disturbed by it."""

    status = 400

    @property
    def headers(self) -> Mapping[str, str]:
        """What goes with the status."""
        return {}


class BadRequest(Refusal):
    """The body is not what its type says it is."""


class Unauthorized(Refusal):
    """No key, or another one."""

    status = 401

    @property
    def headers(self) -> Mapping[str, str]:
        """How to do it right."""
        return {"WWW-Authenticate": "Bearer"}


class Forbidden(Refusal):
    """A request that a browser sent for another site's page, or that the operator disabled."""

    status = 403


class Unknown(Refusal):
    """There is nothing of that name."""

    status = 404


class TooSlow(Refusal):
    """The body did not arrive in time."""

    status = 408


class TooLarge(Refusal):
    """More bytes than are taken."""

    status = 413


class UnknownType(Refusal):
    """A body of a type that is not read here."""

    status = 415


class Unacceptable(Refusal):
    """The body is well formed, and is not an input of this model."""

    status = 422


class Stopped(Refusal):
    """The request was stopped before it was answered: by DELETE, or because its caller went away."""

    status = 409


class Full(Refusal):
    """The queue is full."""

    status = 429

    def __init__(self, reason: str, retry_after: int) -> None:
        super().__init__(reason)
        self.retry_after = retry_after

    @property
    def headers(self) -> Mapping[str, str]:
        """When it may be worth trying again."""
        return {"Retry-After": str(self.retry_after)}


class OutOfTime(Refusal):
    """Not finished within the time a request may take, or the service is closing."""

    status = 503

    @property
    def headers(self) -> Mapping[str, str]:
        """It may be quieter later."""
        return {"Retry-After": "10"}
