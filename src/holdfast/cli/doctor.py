"""``holdfast doctor``: checks the installation, and that it computes known results."""

import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from holdfast.cli.console import Terminal
from holdfast.errors import how_to_install

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PACKAGES = ("numpy", "scipy", "pyarrow", "matplotlib", "pillow", "typer", "rich")
_TORCH = ("torch", "safetensors")


def doctor() -> None:
    """Check the installation: versions, devices, the embedded model, and bounds whose truth is known.

    Without torch, it checks what needs none: bounds.
    """
    from holdfast.version import installed_version

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("holdfast", installed_version())
    table.add_row("python", f"{platform.python_version()} on {platform.platform()}")
    for package in _PACKAGES:
        table.add_row(package, _version(package))
    table.add_row("disk free here", f"{shutil.disk_usage(Path.cwd()).free / 1e9:.1f} GB")
    checks = {"closed-form bound": _closed_form_bound()}
    if find_spec("torch") is None:
        table.add_row("torch", f"not installed; to run networks: {how_to_install('torch')}")
    else:
        _add_devices(table)
        checks |= {"embedded model": _embedded_model(), "closed-form certificate": _closed_form()}
    for name, problem in checks.items():
        table.add_row(name, problem or "ok")
    Terminal().print(table)
    if any(checks.values()):
        raise typer.Exit(1)


def _add_devices(table: Table) -> None:
    import torch

    for package in _TORCH:
        table.add_row(package, _version(package))
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none seen by torch; CPU is used"
    table.add_row("GPU", gpu)
    table.add_row("CPU threads", str(torch.get_num_threads()))


def _closed_form_bound() -> str:
    """Scores ``ndtr(b + a Z)`` for Gaussian noise Z: moved by R against them, their average is ``ndtr((b - a R) / sqrt(1 + a^2))``."""
    import numpy as np
    from scipy.special import ndtr

    from holdfast.bounds import bound
    from holdfast.scores import ScoreSamples

    a, b, radii = 1.0, 0.5, np.array([0.0, 0.5, 1.0])
    truth = ndtr((b - a * radii) / np.hypot(1, a))
    scores = ScoreSamples(ndtr(b + a * np.random.default_rng().normal(size=20_000)), sigma=1.0)
    return _compared(bound(scores, alpha=1e-3).lower(radii), truth)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "MISSING"


def _embedded_model() -> str:
    """The network must get at least 80% of clean embedded images right."""
    import torch

    from holdfast.zoo.datasets.embedded import load_fashion_mnist
    from holdfast.zoo.pretrained import load_embedded_model

    data, net = load_fashion_mnist(), load_embedded_model().net
    with torch.inference_mode():
        answers = net(torch.stack([torch.from_numpy(data.image(k)) for k in range(len(data))])).argmax(1).numpy()
    accuracy = float((answers == data.labels).mean())
    return (
        ""
        if accuracy >= 0.8
        else f"accuracy on the embedded images is {accuracy:.3f}, expected at least 0.8: reinstall"
    )


def _closed_form() -> str:
    """A probit model's worst case is known: the certificate must be below it, and near it."""
    import numpy as np

    from holdfast.smoothed import SmoothedClassifier
    from holdfast.zoo.probit import ProbitModel

    x, sigma, radii = np.full(16, 0.5, dtype=np.float32), 0.5, np.array([0.0, 0.25, 0.5])
    model = ProbitModel(np.linspace(0.1, 0.5, 16))
    truth = model.worst_case(x, sigma, radii)
    certified = (
        SmoothedClassifier(model, sigma, outputs="probabilities")
        .certify(x, n=20_000, claims=("score",))
        .score.lower(radii)
    )
    return _compared(certified, truth)


def _compared(certified: "NDArray[np.float64]", truth: "NDArray[np.float64]") -> str:
    """A bound must be below the truth, and near it."""
    if (certified > truth).any():
        return f"certified {certified} where the truth is {truth} (by chance once in 1,000 runs; if again, do not trust it)"
    return "" if (truth - certified < 0.1).all() else f"certified {certified}, far below the truth {truth}"
