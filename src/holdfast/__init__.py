"""Holdfast certifies the confidence of a classifier.

For every perturbation of an input up to a radius, the smoothed classifier's average score stays above a number that
Holdfast computes, with probability at least 1 - alpha. Names that need torch or pyarrow load them when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from holdfast.bands import DKW, Band, BerkJones, Empirical
from holdfast.bounds import CDF, BestOf, Curve, Curves, Method, Naive, Star, Tangent, Tangents, bound, bound_many
from holdfast.certificates.certificate import Certificate
from holdfast.certificates.classes import ClassCertificate
from holdfast.certificates.evidence import Evidence, Provenance
from holdfast.certificates.label import LabelCertificate
from holdfast.certificates.settings import Settings
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
)
from holdfast.means import Betting, EmpiricalBernstein, EmpiricalMean, Hoeffding, MeanBound
from holdfast.measures import Mass, Measure
from holdfast.noise import Gaussian, Noise, Uniform
from holdfast.scores import Exceedances, ScoreHistogram, Scores, ScoreSamples
from holdfast.sequential import Decision, decide
from holdfast.sequential.radius import AdaptiveRadius, adaptive_radius
from holdfast.triage import Triage, choose_threshold
from holdfast.version import installed_version

if TYPE_CHECKING:
    from holdfast.attacks.attack import Attack
    from holdfast.attacks.attacked import Attacked, attack
    from holdfast.models.callable import CallableModel
    from holdfast.models.ensemble import Ensemble
    from holdfast.models.http import HttpModel
    from holdfast.models.model import Model
    from holdfast.models.onnx import OnnxModel
    from holdfast.models.scaled import Scaled
    from holdfast.models.torch import TorchModel
    from holdfast.runs.execute import certify_run
    from holdfast.runs.run import Run
    from holdfast.sampling.engine import Engine
    from holdfast.sampling.local import Local
    from holdfast.sampling.ray import RayCluster
    from holdfast.service.server import serve
    from holdfast.smoothed import SmoothedClassifier
    from holdfast.zoo import datasets
    from holdfast.zoo.normalize import Normalize
    from holdfast.zoo.pretrained import load
    from holdfast.zoo.probit import ProbitModel

__version__ = installed_version()

_LAZY = {
    "Attack": "holdfast.attacks.attack",
    "Attacked": "holdfast.attacks.attacked",
    "CallableModel": "holdfast.models.callable",
    "Engine": "holdfast.sampling.engine",
    "Ensemble": "holdfast.models.ensemble",
    "HttpModel": "holdfast.models.http",
    "Local": "holdfast.sampling.local",
    "Model": "holdfast.models.model",
    "Normalize": "holdfast.zoo.normalize",
    "OnnxModel": "holdfast.models.onnx",
    "ProbitModel": "holdfast.zoo.probit",
    "RayCluster": "holdfast.sampling.ray",
    "Run": "holdfast.runs.run",
    "Scaled": "holdfast.models.scaled",
    "SmoothedClassifier": "holdfast.smoothed",
    "TorchModel": "holdfast.models.torch",
    "attack": "holdfast.attacks.attacked",
    "certify_run": "holdfast.runs.execute",
    "load": "holdfast.zoo.pretrained",
    "serve": "holdfast.service.server",
}

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
    if name == "datasets":
        return import_module("holdfast.zoo.datasets")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
