"""Holdfast certifies the confidence of a classifier.

For every perturbation of an input up to a radius, the smoothed classifier's average score stays above a number that
Holdfast computes, with probability at least 1 - alpha. Every name loads what it needs when it is first used: bounds
need NumPy and SciPy, and only what runs a network needs torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from holdfast.errors import (
    CheckpointError,
    ClusterError,
    DatasetError,
    HoldfastError,
    InvalidArgument,
    InvalidInput,
    ModelError,
    NotClaimed,
    RunError,
    explain_missing_packages,
)

if TYPE_CHECKING:
    __version__: str
    from holdfast.attacks.attack import Attack
    from holdfast.attacks.attacked import Attacked, attack
    from holdfast.bands import DKW, Band, BerkJones, Empirical
    from holdfast.bounds import CDF, BestOf, Curve, Curves, Method, Naive, Star, Tangent, Tangents, bound, bound_many
    from holdfast.certificates.certificate import Certificate
    from holdfast.certificates.classes import ClassCertificate
    from holdfast.certificates.evidence import Evidence, Provenance
    from holdfast.certificates.label import LabelCertificate
    from holdfast.certificates.settings import Settings
    from holdfast.means import Betting, EmpiricalBernstein, EmpiricalMean, Hoeffding, MeanBound
    from holdfast.measures import Mass, Measure
    from holdfast.models.callable import CallableModel
    from holdfast.models.ensemble import Ensemble
    from holdfast.models.http import HttpModel
    from holdfast.models.model import Model
    from holdfast.models.onnx import OnnxModel
    from holdfast.models.scaled import Scaled
    from holdfast.models.torch import TorchModel
    from holdfast.noise import Gaussian, Noise, Uniform
    from holdfast.runs.execute import certify_run
    from holdfast.runs.run import Run
    from holdfast.sampling.engine import Engine
    from holdfast.sampling.local import Local
    from holdfast.sampling.ray import RayCluster
    from holdfast.scores import Exceedances, ScoreHistogram, Scores, ScoreSamples
    from holdfast.sequential import Decision, decide
    from holdfast.sequential.radius import AdaptiveRadius, adaptive_radius
    from holdfast.service.server import serve
    from holdfast.smoothed import SmoothedClassifier
    from holdfast.triage import Triage, choose_threshold
    from holdfast.zoo import datasets
    from holdfast.zoo.normalize import Normalize
    from holdfast.zoo.pretrained import load
    from holdfast.zoo.probit import ProbitModel

_NAMES: dict[str, tuple[str, ...]] = {
    "holdfast.attacks.attack": ("Attack",),
    "holdfast.attacks.attacked": ("Attacked", "attack"),
    "holdfast.bands": ("DKW", "Band", "BerkJones", "Empirical"),
    "holdfast.bounds": (
        "CDF",
        "BestOf",
        "Curve",
        "Curves",
        "Method",
        "Naive",
        "Star",
        "Tangent",
        "Tangents",
        "bound",
        "bound_many",
    ),
    "holdfast.certificates.certificate": ("Certificate",),
    "holdfast.certificates.classes": ("ClassCertificate",),
    "holdfast.certificates.evidence": ("Evidence", "Provenance"),
    "holdfast.certificates.label": ("LabelCertificate",),
    "holdfast.certificates.settings": ("Settings",),
    "holdfast.means": ("Betting", "EmpiricalBernstein", "EmpiricalMean", "Hoeffding", "MeanBound"),
    "holdfast.measures": ("Mass", "Measure"),
    "holdfast.models.callable": ("CallableModel",),
    "holdfast.models.ensemble": ("Ensemble",),
    "holdfast.models.http": ("HttpModel",),
    "holdfast.models.model": ("Model",),
    "holdfast.models.onnx": ("OnnxModel",),
    "holdfast.models.scaled": ("Scaled",),
    "holdfast.models.torch": ("TorchModel",),
    "holdfast.noise": ("Gaussian", "Noise", "Uniform"),
    "holdfast.runs.execute": ("certify_run",),
    "holdfast.runs.run": ("Run",),
    "holdfast.sampling.engine": ("Engine",),
    "holdfast.sampling.local": ("Local",),
    "holdfast.sampling.ray": ("RayCluster",),
    "holdfast.scores": ("Exceedances", "ScoreHistogram", "Scores", "ScoreSamples"),
    "holdfast.sequential": ("Decision", "decide"),
    "holdfast.sequential.radius": ("AdaptiveRadius", "adaptive_radius"),
    "holdfast.service.server": ("serve",),
    "holdfast.smoothed": ("SmoothedClassifier",),
    "holdfast.triage": ("Triage", "choose_threshold"),
    "holdfast.version": ("__version__",),
    "holdfast.zoo.normalize": ("Normalize",),
    "holdfast.zoo.pretrained": ("load",),
    "holdfast.zoo.probit": ("ProbitModel",),
}
"""Public names, by the module that defines them."""
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "CDF",
    "DKW",
    "AdaptiveRadius",
    "Attack",
    "Attacked",
    "Band",
    "BerkJones",
    "BestOf",
    "Betting",
    "CallableModel",
    "Certificate",
    "CheckpointError",
    "ClassCertificate",
    "ClusterError",
    "Curve",
    "Curves",
    "DatasetError",
    "Decision",
    "Empirical",
    "EmpiricalBernstein",
    "EmpiricalMean",
    "Engine",
    "Ensemble",
    "Evidence",
    "Exceedances",
    "Gaussian",
    "Hoeffding",
    "HoldfastError",
    "HttpModel",
    "InvalidArgument",
    "InvalidInput",
    "LabelCertificate",
    "Local",
    "Mass",
    "MeanBound",
    "Measure",
    "Method",
    "Model",
    "ModelError",
    "Naive",
    "Noise",
    "Normalize",
    "NotClaimed",
    "OnnxModel",
    "ProbitModel",
    "Provenance",
    "RayCluster",
    "Run",
    "RunError",
    "Scaled",
    "ScoreHistogram",
    "ScoreSamples",
    "Scores",
    "Settings",
    "SmoothedClassifier",
    "Star",
    "Tangent",
    "Tangents",
    "TorchModel",
    "Triage",
    "Uniform",
    "adaptive_radius",
    "attack",
    "bound",
    "bound_many",
    "certify_run",
    "choose_threshold",
    "datasets",
    "decide",
    "load",
    "serve",
]


def __getattr__(name: str) -> object:
    if name != "datasets" and name not in _MODULE_OF:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    with explain_missing_packages():
        if name == "datasets":
            found: object = import_module("holdfast.zoo.datasets")
        else:
            found = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = found  # the next time it is there
    return found


def __dir__() -> list[str]:
    return __all__
