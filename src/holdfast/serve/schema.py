"""The parts of the OpenAPI document that cannot be read off the functions: raw bodies, refusals, streams."""

from collections.abc import Sequence
from typing import Any

from holdfast.measures import MeasureInfo

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
    429: "The queue is full; Retry-After says when to try again.",
    503: "Not finished within the time a request may take.",
}
_PROBLEM = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """These refusals, all of one form."""
    return {
        status: {"description": _MEANINGS[status], "content": {"application/json": {"schema": _PROBLEM}}}
        for status in statuses
    }


def stream_of() -> dict[int | str, dict[str, Any]]:
    """A stream of JSON lines."""
    said = "One JSON object a line; each has an 'event': accepted, chosen, copies, progress, look, done or stopped."
    return {200: {"description": said, "content": {"application/x-ndjson": {"schema": {"type": "string"}}}}}


def body_of_an_input(shape: Sequence[int], *, within: tuple[float, float] | None) -> dict[str, Any]:
    """An input, as JSON with numbers in a range if there is one, as an image file, or as an array file."""
    nested: dict[str, Any] = {"type": "number"}
    if within is not None:
        nested |= {"minimum": within[0], "maximum": within[1]}
    for length in reversed(shape):
        nested = {"type": "array", "minItems": length, "maxItems": length, "items": nested}
    as_json = {
        "schema": {
            "type": "object",
            "required": ["input"],
            "properties": {"input": nested},
            "additionalProperties": False,
        }
    }
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = {
        "application/json": as_json,
        "image/png": binary,
        "image/jpeg": binary,
        "application/x-npy": binary,
    }
    return {"requestBody": {"required": True, "content": content}}


def with_limits(document: dict[str, Any], copies: int, measures: Sequence[MeasureInfo]) -> dict[str, Any]:
    """The document with the operator's limit in the place of the largest number there is, and with what is counted."""
    names = [info.name for info in measures]
    least, most = min(info.support[0] for info in measures), max(info.support[1] for info in measures)
    for path in document["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                name, schema = parameter["name"], parameter["schema"]
                if name in ("n", "n_max"):
                    _choice(schema, "integer")["maximum"] = copies
                elif name == "measure":
                    _choice(schema, "string")["enum"] = names
                elif name == "claims":
                    claimed = _choice(schema, "array")
                    claimed |= {"items": {"type": "string", "enum": ["label", *names]}, "maxItems": len(names) + 1}
                elif name == "at_least":
                    schema |= {"minimum": least, "maximum": most}
    return document


def _choice(schema: dict[str, Any], kind: str) -> dict[str, Any]:
    """What an optional parameter may be, other than left out."""
    found: dict[str, Any] = next(choice for choice in schema["anyOf"] if choice["type"] == kind)
    return found


def body_of_a_certificate() -> dict[str, Any]:
    """What ``to_dict()`` writes."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}}
