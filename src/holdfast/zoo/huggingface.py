"""Image classifiers of Hugging Face's transformers, from a folder on this machine (extra ``transformers``)."""

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.budgets import read_text
from holdfast.errors import CheckpointError, InvalidArgument, how_to_install, reading
from holdfast.zoo.checkpoint import Opened

_PROCESSOR = "preprocessor_config.json"
_MODES = {0: "nearest", 2: "bilinear", 3: "bicubic"}
"""Pillow's numbers for how images are resized."""


class ImageProcessing(nn.Module):
    """What an image processor does to images in [0, 1]: it resizes, cuts the middle out, and normalises."""

    mean: Tensor
    std: Tensor

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        normal = bool(config.get("do_normalize", True)) and "image_mean" in config
        factor = 255.0 * float(config.get("rescale_factor", 1 / 255)) if config.get("do_rescale", True) else 255.0
        mean, std = (config["image_mean"], config["image_std"]) if normal else ([0.0], [1.0])
        offset = 1.0 if config.get("rescale_offset") else 0.0
        # In one step: images times the factor, less the offset and the mean, divided by std.
        self.register_buffer("mean", (torch.tensor(mean, dtype=torch.float32).reshape(1, -1, 1, 1) + offset) / factor)
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).reshape(1, -1, 1, 1) / factor)
        self.size = _sides(config.get("size")) if config.get("do_resize", True) else None
        self.crop = _sides(config.get("crop_size")) if config.get("do_center_crop") else None
        self.mode = _MODES.get(int(config.get("resample", 2)), "bilinear")

    def forward(self, images: Tensor) -> Tensor:
        """What the network was trained on."""
        final = self.crop or self.size
        if final is not None and tuple(images.shape[-2:]) != _exactly(final, images):
            images = self._resized(images)
        return (images - self.mean) / self.std

    def _resized(self, images: Tensor) -> Tensor:
        if self.size is not None:
            smooth = self.mode != "nearest"
            images = nn.functional.interpolate(images, _exactly(self.size, images), mode=self.mode, antialias=smooth)
        if self.crop is not None:
            height, width = _exactly(self.crop, images)
            top, left = (images.shape[-2] - height) // 2, (images.shape[-1] - width) // 2
            images = images[..., top : top + height, left : left + width]
        return images


def _sides(size: object) -> tuple[int, ...] | None:
    """(height, width), or (shorter side,)."""
    if isinstance(size, int):
        return (size, size)
    if not isinstance(size, Mapping):
        return None
    if "shortest_edge" in size:
        return (int(size["shortest_edge"]),)
    return (int(size["height"]), int(size["width"]))


def _exactly(sides: tuple[int, ...], images: Tensor) -> tuple[int, int]:
    if len(sides) == 2:
        return sides[0], sides[1]
    height, width = images.shape[-2:]
    shorter = min(height, width)
    return height * sides[0] // shorter, width * sides[0] // shorter


def load_huggingface(folder: Path) -> Opened:
    """A network that takes images in [0, 1], from what ``save_pretrained`` wrote of a model and of its image processor.

    Weights are read from safetensors only; no code in the folder is run, and nothing is downloaded.
    """
    if find_spec("transformers") is None:
        raise InvalidArgument(f"hf:PATH needs transformers: {how_to_install('transformers')}")
    if not (folder / "config.json").is_file():
        raise CheckpointError(
            f"no config.json in {folder}; hf:PATH is a folder on this machine, as save_pretrained writes it. Nothing is "
            f"downloaded here: 'hf download NAME --local-dir {folder}' does that"
        )
    if not (folder / _PROCESSOR).is_file():
        raise CheckpointError(
            f"no {_PROCESSOR} in {folder}, which says how images are normalised; save the image processor there, too, or certify "
            f"the model in Python: nn.Sequential(holdfast.Normalize(mean, std), model)"
        )
    with reading(
        folder, CheckpointError, "is not a readable image classifier of transformers", remedy="download it again"
    ):
        processing = ImageProcessing(json.loads(read_text(folder / _PROCESSOR, CheckpointError)))
        net, names = _classifier(folder)
    return Opened(nn.Sequential(processing, net).eval(), None, {"source": f"hf:{folder}", "classes": json.dumps(names)})


def _classifier(folder: Path) -> tuple[nn.Module, list[str]]:
    from transformers import AutoModelForImageClassification
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        net, info = AutoModelForImageClassification.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_safetensors=True, output_loading_info=True
        )
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
    missing = sorted(info["missing_keys"])
    if missing or info["mismatched_keys"]:
        raise CheckpointError(
            f"{folder} lacks weights of its network ({', '.join(missing[:3]) or 'of other shapes'}), which would be random; it may be "
            f"a backbone without a classifier: fine-tune it first"
        )
    names = net.config.id2label
    return net.float(), [str(names[number]) for number in sorted(names)]
