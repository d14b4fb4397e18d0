"""Uploaded certificates: every size in them is checked, and bounds are computed again from the counts."""

import json
from typing import Any

from holdfast.certificates.certificate import Certificate
from holdfast.certificates.evidence import stored_measures
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.scores.grid import DEFAULT_BINS
from holdfast.service.limits import MOST_MEASURES, Limits
from holdfast.service.questions import SEEDED_BY
from holdfast.service.refusals import Refusal

_METHODS = ("cdf-berk-jones", "cdf-dkw", "naive-hoeffding")
_LONGEST_TEXT = 4_000
_MOST_THRESHOLDS = 100


def read_certificate(content: bytes, limits: Limits) -> tuple[Certificate, str | None]:
    """A certificate from the JSON of ``to_dict()``, and who chose its seed, if the file says so.

    Its summary is not believed: bounds are computed from the counts. That they were counted from the network's answers
    is the file's own word: this proves nothing to a third person.
    """
    try:
        found = json.loads(content)
    except (RecursionError, ValueError) as error:
        raise Refusal(400, f"the body is not readable JSON: {str(error)[:200]}") from error
    try:
        _check_sizes(found)
        certificate = Certificate.from_dict(found)
        _check_values(certificate, limits)
        certificate.to_dict()
        return certificate, found.get("seeded_by")
    except Exception as error:  # whatever reading what anybody may have written raises
        raise Refusal(422, f"not a certificate as to_dict() writes it: {_reason(error)[:300]}") from error


def _reason(error: BaseException) -> str:
    """Holdfast's own words; what Python says of a document means nothing to whoever sent it."""
    if isinstance(error, HoldfastError):
        return str(error) if error.__cause__ is None else _reason(error.__cause__)
    if isinstance(error, KeyError):
        return f"it has no field {error.args[0]}"
    return "a field of it is unknown, or is another kind of value than expected"


def _expect(holds: bool, expected: str) -> None:
    if not holds:
        raise InvalidInput(f"expected {expected}")


def _check_sizes(found: Any) -> None:
    """Refuse what would take much time or memory, before it is read."""
    _expect(isinstance(found, dict), "a JSON object")
    _expect(found["method"] in _METHODS, f"a method among {', '.join(_METHODS)}")
    _expect(found.get("seeded_by", "service") in SEEDED_BY, f"seeded_by among {', '.join(SEEDED_BY)}")
    evidence = found["evidence"]
    measures = stored_measures(evidence.get("measures"))
    _expect(1 <= len(measures) <= MOST_MEASURES, f"1 to {MOST_MEASURES} measures")
    for info in measures:
        _expect(evidence[info.name]["bins"] <= DEFAULT_BINS, f"at most {DEFAULT_BINS} bins")


def _check_values(certificate: Certificate, limits: Limits) -> None:
    """Refuse what no service would have answered: too many copies, and unusual noise, alpha and texts."""
    # Each counter, too: the sum of huge ones may wrap around.
    most = max(int(each.counts.max()) for each in certificate.evidence.histograms.values())
    _expect(most <= certificate.n <= limits.copies, f"at most {limits.copies:,} copies")
    _expect(1e-6 <= certificate.noise.scale <= 1e6 and certificate.alpha >= 1e-12, "usual noise and alpha")
    for info in certificate.evidence.measures:
        brief = max(len(info.name), len(info.title)) <= _LONGEST_TEXT
        _expect(brief and len(info.thresholds) <= _MOST_THRESHOLDS, "short names of measures, and a few thresholds")
