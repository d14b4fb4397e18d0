"""Networks of timm by their names, with weights from a file and their normalisation inside."""

from pathlib import Path

from torch import nn

from holdfast.errors import CheckpointError, InvalidArgument, reading
from holdfast.zoo.checkpoint import Opened, read_state
from holdfast.zoo.normalize import Normalize


def load_timm(name: str, weights: Path | None) -> Opened:
    """A network that takes images in [0, 1]. Weights are read as numbers only; nothing is downloaded."""
    with reading(
        "timm", InvalidArgument, "cannot be imported", remedy="pip install timm, and a torchvision that fits torch"
    ):
        import timm
    if not timm.is_model(name):
        near = ", ".join(timm.list_models(f"*{name.partition('.')[0]}*")[:5])
        raise CheckpointError(f"timm has no network {name!r}; it has {near or 'those of timm.list_models()'}")
    if weights is None:
        raise CheckpointError(
            f"timm:{name} needs the weights it was trained to: --weights FILE (holdfast.load({f'timm:{name}'!r}, weights=FILE)), a "
            f".safetensors file or a torch.save of net.state_dict(); nothing is downloaded here"
        )
    state = read_state(weights)
    with reading(weights, CheckpointError, f"does not fit timm's {name}", remedy="take the network it was written for"):
        config = timm.create_model(name, pretrained=False).default_cfg
        head, first = (_name(config[part]) for part in ("classifier", "first_conv"))
        channels = state[f"{first}.weight"].shape[1]
        net = timm.create_model(name, pretrained=False, num_classes=len(state[f"{head}.weight"]), in_chans=channels)
        net.load_state_dict(state)
    mean, std = (_for_channels(config[part], channels) for part in ("mean", "std"))
    return Opened(
        nn.Sequential(Normalize(mean, std), net.eval()), None, {"source": f"timm:{name}", "file": weights.name}
    )


def _name(part: str | tuple[str, ...] | list[str]) -> str:
    """Of a layer; a network with several heads names each."""
    return part if isinstance(part, str) else part[0]


def _for_channels(values: tuple[float, ...], channels: int) -> list[float]:
    """One for each channel; of other channels than three, the average, as timm averages weights."""
    return list(values) if len(values) == channels else [sum(values) / len(values)] * channels
