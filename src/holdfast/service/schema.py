"""The parts of the OpenAPI document that cannot be read off the functions: raw bodies, streams, this service's limits."""

from collections.abc import Sequence
from typing import Any

from holdfast.measures import MeasureInfo
from holdfast.service.connection import NDJSON
from holdfast.service.uploads import INPUT_TYPES, json_body

STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "One JSON object a line; each has an 'event': accepted, chosen, copies, progress, look, done or stopped.",
        "content": {NDJSON: {"schema": {"type": "string"}}},
    }
}
A_CERTIFICATE = {"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}}
"""The body that ``to_dict()`` writes."""


def an_input(shape: Sequence[int], *, within: tuple[float, float] | None) -> dict[str, Any]:
    """The body of an input: JSON with numbers in a range if there is one, an image file, or an array file."""
    content: dict[str, Any] = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in INPUT_TYPES}
    content["application/json"] = {"schema": json_body(tuple(shape), within).model_json_schema()}
    return {"requestBody": {"required": True, "content": content}}


def with_limits(document: dict[str, Any], copies: int, measures: Sequence[MeasureInfo]) -> None:
    """Write the operator's limit in the place of the largest number there is, and what is counted, into the document."""
    names = [info.name for info in measures]
    changes = {
        "n": {"maximum": copies},
        "n_max": {"maximum": copies},
        "measure": {"enum": names},
        "claims": {"items": {"type": "string", "enum": ["label", *names]}, "maxItems": len(names) + 1},
        "at_least": {
            "minimum": min(info.support[0] for info in measures),
            "maximum": max(info.support[1] for info in measures),
        },
    }
    for path in document["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                schema = parameter["schema"]
                # An optional parameter's first choice is its type; the other is to leave it out.
                chosen = schema["anyOf"][0] if "anyOf" in schema else schema
                chosen |= changes.get(parameter["name"], {})
