"""Options that several commands take, and from what people type to values."""

import math
from collections.abc import Callable, Iterable
from inspect import signature
from typing import TYPE_CHECKING, Any

import typer

from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.measures import Measure
    from holdfast.noise import Noise


def whole_number(text: str) -> int:
    """A count, as people type it."""
    from holdfast.validation import LONGEST_COUNT, as_whole

    found = as_whole(text)
    if not isinstance(found, int):
        raise typer.BadParameter(
            f"expected a whole number of at most {LONGEST_COUNT} digits, such as 10000, 10_000 or 1e4, got {text!r}"
        )
    return found


def count(default: int | None, *names: str, help: str) -> Any:
    """An option that takes a whole number."""
    return typer.Option(default, *names, help=help, parser=whole_number, metavar="<int>")


def real_number(text: str) -> float:
    """A number; what was typed instead is repeated, which typer does not do."""
    try:
        return float(text)
    except ValueError as error:
        raise typer.BadParameter(f"expected a number, such as 0.25, got {text!r}") from error


def read_numbers(command: Callable[..., None]) -> Callable[..., None]:
    """The same command, with :func:`real_number` for each option that takes a number."""
    for parameter in signature(command).parameters.values():
        if parameter.annotation in (float, float | None):
            parameter.default.parser, parameter.default.metavar = real_number, "<float>"
    return command


ORIGINAL = "original"
MEASURES = ("score", "margin")
"""The names of ``DEFAULT_MEASURES``: a help that is asked for imports no NumPy."""
CLAIMED = ",".join(("label", *MEASURES))
MEASURED = f"{', '.join(MEASURES)}, or mass-3-5 for the mass of classes 3 and 5"
MODEL: Any = typer.Option(
    ...,
    help="A checkpoint (.safetensors, or torch weights); embedded: 'fashion-mnist', 'cifar10-sigma0.25', "
    "'cifar10-plain-sigma0.25', 'cifar10-sharp-sigma0.25', and these with 0.50; or 'efficientnet-lite0' (extra imagenet). Or a "
    ".pt2 or TorchScript file; an .onnx file; hf:FOLDER; timm:NAME with --weights; a URL that answers with class scores; or "
    "FILE.py:FUNCTION or package.module:FUNCTION, which returns any model. The last two, .pt2 and TorchScript are programs, which are "
    "run with your rights: name those you trust.",
)
WEIGHTS: Any = typer.Option(None, help="With --model timm:NAME: a file of its weights.")
DATA: Any = typer.Option(
    ...,
    help="An .npz archive, a folder of IDX files or of CIFAR-10, a folder SPLIT/CLASS/*.jpg, 'fashion-mnist' (embedded), or "
    "'imagenet' (in $IMAGENET_DIR). Or a table, .csv or .parquet, with a column of labels ('label', "
    "'target', 'class', 'y', or TABLE:COLUMN); or a folder of Hugging Face's datasets (save_to_disk).",
)
SPLIT: Any = typer.Option("test", help="Which part of the dataset.")
SIZE: Any = typer.Option(
    None,
    help="For folders of images: resize them to so many pixels a side (default: 224), in colour, or such as 32-grey; or 'original': keep "
    "size and grey as they are.",
)
SIGMA: Any = typer.Option(
    None, help="Standard deviation of Gaussian noise, in pixels of [0, 1]; certifies against l2 perturbations."
)
NOISE: Any = typer.Option(
    None,
    help="Instead of --sigma: a kind of noise and its scale, such as uniform:0.5 (on [-0.5, 0.5]; certifies against l1).",
)
STEP: Any = typer.Option(
    None,
    help="Of the grid that the certified classifier rounds its input to; by default 1/255 for images of bytes, else a power of "
    "two far below the noise. 0: the float32 noise of Holdfast 0.1.0, for a replay.",
)
N0: Any = count(100, help="Other noisy copies per input, to choose the class.")
ALPHA: Any = typer.Option(0.001, help="Total failure probability of one certificate.")
OUTPUTS: Any = typer.Option("logits", help="What the model returns: 'logits' or 'probabilities'.")
INPUTS: Any = typer.Option(
    "images", "--inputs", help="'images' refuses values far outside [0, 1]; 'any' takes other units."
)
BATCH: Any = count(None, help="Noisy copies per forward pass.")
SEED: Any = typer.Option(None, help="For a replay; by default secret, and recorded in run.json.")
DEVICE: Any = typer.Option("auto", help="'auto', 'cpu' or 'cuda'.")
PRECISION: Any = typer.Option(
    None,
    help="Of convolutions and matrix products: float32, bfloat16 or float16; on a GPU also tf32, or tf32-convolutions or "
    "tf32-products for one of the two. By default torch's own: float32, on a GPU tf32-convolutions.",
)
COMPILE: Any = typer.Option(
    None,
    "--compile/--no-compile",
    help="Compile the network first, or never; by default once the work that lies ahead outweighs it.",
)
PROGRESS: Any = typer.Option(None, help="Show a progress bar; by default if stderr is a terminal.")

SIGN: Any = typer.Option(None, help="A private Ed25519 key (PEM) to sign the run's manifest with (extra sign).")


def words(text: str) -> tuple[str, ...]:
    """``"label,score"`` as words."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def numbers(text: str | None, option: str, *, example: str = "0,0.25,0.5") -> tuple[float, ...] | None:
    """``"0,0.25,0.5"`` as numbers; the example is of what the option takes."""
    if text is None:
        return None
    try:
        values = tuple(map(float, words(text)))
    except ValueError as error:
        raise InvalidArgument(f"{option} takes numbers separated by commas, such as {example}, got {text!r}") from error
    if not values or any(map(math.isnan, values)):
        raise InvalidArgument(f"{option} takes at least one number, such as {example}, and none is nan, got {text!r}")
    return values


def radii(text: str | None, option: str = "--radii") -> tuple[float, ...] | None:
    """``"0,0.25,0.5"`` as radii."""
    from holdfast.validation import check_radii

    found = numbers(text, option)
    if found is not None:
        check_radii(found, option)
    return found


def image_size(text: str | None) -> int | str | None:
    """What image files are resized to, or ``"original"``; None for what is usual."""
    if text is None or text == ORIGINAL or text.endswith("-grey"):
        return text
    try:
        return int(text)
    except ValueError as error:
        raise InvalidArgument(
            f"--size takes a number of pixels, such as 32 or 32-grey, or {ORIGINAL!r}, got {text!r}"
        ) from error


def choice(value: str, option: str, known: tuple[str, ...]) -> str:
    """One of the known words."""
    if value not in known:
        raise InvalidArgument(f"{option} must be one of {', '.join(known)}, got {value!r}")
    return value


def seed_number(text: str | None) -> int | None:
    """A seed as decimal or as 0x... hexadecimal, the way run.json records it."""
    from holdfast.validation import as_seed

    return None if text is None else as_seed("--seed", text)


def noise_from(sigma: float | None, noise: str | None) -> "Noise":
    """The noise that ``--sigma`` or ``--noise`` names; one of them must."""
    from holdfast.noise import as_noise, noise_named

    if (sigma is None) == (noise is None):
        raise InvalidArgument(
            "expected the noise: either --sigma 0.25, for Gaussian noise, or --noise with another kind, such as uniform:0.5; "
            + ("got neither" if noise is None else "got both")
        )
    return as_noise(None, sigma) if noise is None else noise_named(noise)


def claims_named(text: str) -> tuple[str, ...]:
    """The claims of ``--claims`` by their own names: that of mass-5-3 is mass-3-5."""
    from holdfast.measures import measure_named

    try:
        return tuple(word if word == "label" else measure_named(word).name for word in words(text))
    except InvalidArgument as error:
        raise InvalidArgument(f"--claims takes 'label' and measures: {error}") from error


def further_measures(names: Iterable[str]) -> "tuple[Measure, ...]":
    """The measures of these names that are not counted anyway."""
    from holdfast.measures import DEFAULT_MEASURES, measure_named

    found = (measure_named(name) for name in dict.fromkeys(names) if name != "label")
    return tuple(measure for measure in found if measure not in DEFAULT_MEASURES)


def check_selection(skip: int, max_: int | None) -> None:
    """Refuse an empty selection of inputs."""
    from holdfast.validation import check_count

    check_count("--skip", skip)
    if max_ is not None:
        check_count("--max", max_)
