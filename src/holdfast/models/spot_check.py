"""Whether a network answers as it did when it was certified."""

import torch
from torch import Tensor

from holdfast.certificates.spot_check import SpotCheck
from holdfast.errors import InvalidInput, ModelError
from holdfast.models.check import OTHER_KERNELS, OTHER_ROUNDING, difference
from holdfast.models.model import Model


def spot_check_of(model: Model, rows: Tensor) -> SpotCheck:
    """What the model says of these rows, now."""
    with model.session():
        found = model.probabilities(rows.float().to(model.device)).cpu()
    return SpotCheck(rows.float().numpy(), found.float().numpy(), model.precision)


def other_answers(model: Model, known: SpotCheck) -> str:
    """How the model's answers differ from those of a spot check, in words; empty if they do not."""
    plain = model.precision == known.precision == "float32"
    try:
        with model.session():
            found = model.anew(torch.from_numpy(known.rows).to(model.device)).cpu()
    except ModelError as error:
        return str(error).removeprefix("the ")
    return difference(found, torch.from_numpy(known.probabilities), OTHER_KERNELS if plain else OTHER_ROUNDING)


def check_calibrated(model: Model, known: SpotCheck | None) -> None:
    """Refuse a network that does not answer as the one that a threshold was chosen for."""
    fault = "" if known is None else other_answers(model, known)
    if fault:
        raise InvalidInput(
            f"the threshold was chosen for another network: on the rows of its spot check, the {fault}; use the code and the "
            f"weights it was calibrated with, or calibrate again with these"
        )
