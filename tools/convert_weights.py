"""Write weights that the zoo can read (a name such as efficientnet-lite0, or a file) as Holdfast's own safetensors.

    python tools/convert_weights.py efficientnet-lite0 efficientnet_lite0.safetensors

The file says what it is, and is all that a machine without the weights' package needs: give it as ``--model``.
"""

import argparse
import sys
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.zoo.architecture import Architecture
from holdfast.zoo.checkpoint import load_checkpoint, save_checkpoint
from holdfast.zoo.pretrained import PRETRAINED, load_pretrained

_IMAGENET = Architecture("resnet50", 3, 224, 1000)


def main() -> int:
    """Convert one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", help=f"a file of weights, or one of: {', '.join(PRETRAINED)}")
    parser.add_argument("out", type=Path, help="the .safetensors file to write; it must not exist yet")
    asked = parser.parse_args()
    packaged = asked.weights in PRETRAINED
    try:
        found = load_pretrained(asked.weights) if packaged else load_checkpoint(Path(asked.weights), default=_IMAGENET)
        save_checkpoint(asked.out, found.net, found.architecture, found.notes)
    except HoldfastError as error:
        print(f"convert_weights: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{found.architecture} in {asked.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
