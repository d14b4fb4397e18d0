"""Certificates: what users hold, and the counts they are computed from."""

from holdfast.certificates.certificate import Certificate
from holdfast.certificates.classes import ClassCertificate
from holdfast.certificates.evidence import Evidence, Provenance, Selection
from holdfast.certificates.settings import Settings

__all__ = [
    "Certificate",
    "ClassCertificate",
    "Evidence",
    "Provenance",
    "Selection",
    "Settings",
]
