"""Uploaded certificates: every size in them is checked, and bounds are computed again from the counts."""

import json
import math
from typing import Any

from holdfast.certificates.certificate import Certificate
from holdfast.certificates.evidence import MEASURES_0_1_0, stored_measures
from holdfast.errors import HoldfastError
from holdfast.measures import DEFAULT_MEASURES
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
    except RecursionError as error:
        raise Refusal(400, "the body is not readable JSON: it is nested too deep") from error
    except ValueError as error:
        raise Refusal(400, f"the body is not readable JSON: {str(error)[:200]}") from error
    try:
        _check_sizes(found, limits)
        certificate = Certificate.from_dict(found)
        _check_values(certificate)
        certificate.to_dict()
    except Refusal:
        raise
    except (HoldfastError, ArithmeticError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise Refusal(422, f"not a certificate as to_dict() writes it: {_reason(error)[:300]}") from error
    return certificate, _seeded_by(found)


def _reason(error: BaseException) -> str:
    """Holdfast's own words; what Python says of a document means nothing to whoever sent it."""
    if isinstance(error, HoldfastError):
        return str(error) if error.__cause__ is None else _reason(error.__cause__)
    if isinstance(error, KeyError):
        return f"it has no field {error.args[0]}"
    return "a field of it is unknown, or is another kind of value than expected"


def _check_sizes(found: Any, limits: Limits) -> None:
    """Refuse what would take much time or memory, before anything is computed."""
    if not isinstance(found, dict):
        raise Refusal(422, "expected a certificate, the JSON object that to_dict() writes")
    if found["method"] not in _METHODS:
        raise Refusal(422, f"expected a method among {', '.join(_METHODS)}, got {str(found['method'])[:80]!r}")
    evidence = found["evidence"]
    described = evidence.get("measures")
    if described is not None and not (isinstance(described, list) and 1 <= len(described) <= MOST_MEASURES):
        raise Refusal(422, f"expected 1 to {MOST_MEASURES} measures")
    for each in described or ():
        if max(len(each["name"]), len(each["title"])) > _LONGEST_TEXT or len(each["thresholds"]) > _MOST_THRESHOLDS:
            raise Refusal(422, "expected short names and titles of measures, and a few thresholds")
    for info in stored_measures(described):
        bins, counts = evidence[info.name]["bins"], evidence[info.name]["counts"]
        if not isinstance(bins, int) or bins > DEFAULT_BINS:
            raise Refusal(422, f"expected at most {DEFAULT_BINS} bins, got {str(bins)[:40]}")
        if not 0 < math.fsum(counts) <= limits.copies or min(counts) < 0:
            raise Refusal(422, f"expected at most {limits.copies:,} copies, counted by numbers that are not negative")


def _check_values(certificate: Certificate) -> None:
    """Refuse noise and alpha that no service has, and default measures that are described otherwise than here.

    A certificate of 0.1.0 that this version has read and written again describes them as 0.1.0 checked them.
    """
    if not (1e-6 <= certificate.noise.scale <= 1e6) or certificate.alpha < 1e-12:
        raise Refusal(422, "expected noise of a scale in [1e-6, 1e6] and an alpha of at least 1e-12")
    usual = (*(measure.info for measure in DEFAULT_MEASURES), *MEASURES_0_1_0)
    for info in certificate.evidence.measures:
        known = [(each.support, each.winning) for each in usual if each.name == info.name]
        if known and (info.support, info.winning) not in known:
            raise Refusal(
                422, f"expected the support {known[0][0]} and the winning average {known[0][1]} of a {info.name}"
            )


def _seeded_by(found: dict[str, Any]) -> str | None:
    if "seeded_by" not in found:
        return None
    if found["seeded_by"] not in SEEDED_BY:
        raise Refusal(422, f"expected seeded_by among {', '.join(SEEDED_BY)}, got {str(found['seeded_by'])[:40]}")
    return str(found["seeded_by"])
