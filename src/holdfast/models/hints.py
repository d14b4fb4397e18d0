"""Why a first forward pass failed, in the words of who gave the input; asked only when it did."""

import re
from collections.abc import Sequence
from math import prod

from holdfast.errors import ModelError

_DIMENSIONS = re.compile(r"\d+D|dim \d+|rank|dimension|values to unpack")
_CHANNELS = re.compile(r"expected input\[.*\] to have (\d+) channels, but got (\d+)")
_MATRICES = re.compile(r"mat1 and mat2 shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)")
_FEATURES = re.compile(r"has (\d+) features, but \w+ is expecting (\d+) features")
_TOKENS = re.compile(
    r"argument #1 'indices'|inputs? of type .*(?:Long|Int)|indices.*(?:Long|int64)|tensor\(int64\)", re.IGNORECASE
)


def failure(name: str, error: Exception, shape: Sequence[int], *, first: bool = True) -> ModelError:
    """The error for a model that failed on a batch of a shape: what to change, if it is the first; or what its library said."""
    reason, mine = " ".join(str(error).split()) or type(error).__name__, tuple(shape[1:])
    for hint in (_tokens, _batch_dimension, _channels, _features) if first else ():
        if said := hint(reason, mine):
            return ModelError(f"the model {name} cannot take inputs of shape {mine}: {said}")
    remedy = ""
    if _MATRICES.search(reason) or _FEATURES.search(reason):
        remedy = "; it was made for inputs of another size"
    elif "type" in reason:
        remedy = "; noisy copies are float32: net.float() may be what is missing"
    return ModelError(f"the model {name} failed on a batch of shape {tuple(shape)}: {reason}{remedy}")


def _tokens(reason: str, _: tuple[int, ...]) -> str:
    if not _TOKENS.search(reason):
        return ""
    return (
        "it takes token ids, to which no noise can be added: certify the network from its embeddings on, such as "
        "lambda e: net(inputs_embeds=e).logits in a module"
    )


def _batch_dimension(reason: str, mine: tuple[int, ...]) -> str:
    if _DIMENSIONS.search(reason) and mine[:1] == (1,) and len(mine) in (2, 4):
        return "leave the batch dimension out, certify(x[0])"
    return ""


def _channels(reason: str, mine: tuple[int, ...]) -> str:
    found = _CHANNELS.search(reason)
    if not found:
        return ""
    wanted = int(found[1])
    if len(mine) == 2:
        return "there is no channel: certify(x[None])"
    if len(mine) == 3 and mine[-1] == wanted:
        return "its channels are last: certify(x.transpose(2, 0, 1)) of an array, or x.permute(2, 0, 1)"
    if len(mine) == 3 and mine[0] == 1:
        return f"the input has one channel and the network takes {wanted}: give x.repeat({wanted}, axis=0) of an array"
    return f"the input has shape {mine}, and the network takes {wanted} channels"


def _features(reason: str, mine: tuple[int, ...]) -> str:
    found = _MATRICES.search(reason) or _FEATURES.search(reason)
    numbers = prod(mine)
    if re.search(r"array with dim [345]", reason):
        return "it takes rows of features: lambda rows: model.predict_proba(rows.reshape(len(rows), -1))"
    if not found:
        return ""
    wanted = int(found[2])
    if len(mine) > 1 and numbers == wanted:
        return f"it takes rows of {wanted} numbers, and the input has shape {mine}: nn.Sequential(nn.Flatten(), net)"
    return ""
