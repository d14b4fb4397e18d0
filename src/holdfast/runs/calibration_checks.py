"""Checks that a run may calibrate a triage: it is complete, and its inputs were not used for training."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import RunError

IMAGES, COUNT = "images", "inputs"
"""Notes of a checkpoint: what it was trained on, as a hash, and how many."""


def check_whole(path: Path, config: Mapping[str, Any], found: int) -> None:
    """Refuse a run that is not finished, or of which a part is missing."""
    status, asked = config.get("status", "complete"), config.get("inputs")
    if status != "complete":
        raise RunError(f"{path} is {status}, not complete: the same 'holdfast certify' command finishes it")
    if asked is not None and asked != found:
        raise RunError(
            f"{path} holds {found} certificates of {asked} inputs: a file under certificates/ is missing; "
            f"restore it from a copy, or certify again into another folder"
        )


def why_fewer(config: Mapping[str, Any]) -> str:
    """Why a run holds fewer certificates than it has inputs."""
    finished = config.get("status", "complete") == "complete"
    return "a file under certificates/ is missing" if finished else "not finished"


def check_held_out(path: Path, config: Mapping[str, Any]) -> None:
    """Refuse a run on the inputs that its network was trained on, as far as both are recorded."""
    trained = (config.get("weights") or {}).get(IMAGES)
    if trained is not None and trained in ((config.get("fingerprints") or {}).get(IMAGES), config.get("chosen_from")):
        raise RunError(
            f"{path} certifies the very inputs that its network was trained on, where it is surer than on new ones; "
            f"certify inputs that were held out (a file without parts of its own is the same for every --split)"
        )


def was_cut(config: Mapping[str, Any]) -> bool:
    """Whether the run took the first inputs of its dataset and left the others out."""
    most = config.get("max")
    return most is not None and config.get("inputs", 0) >= most
