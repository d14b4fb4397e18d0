"""Compute the table of Berk-Jones calibrations that ships with Holdfast (a few minutes)."""

import json
from pathlib import Path

from holdfast.bands.calibration import VERSION, solve
from holdfast.sequential.looks import plan_looks
from holdfast.validation import Sides

TARGET = Path(__file__).parents[1] / "src" / "holdfast" / "bands" / "calibrations.json"
SIZES = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)
ALPHAS = (1e-4, 1e-3, 0.01, 0.05)
SHARES = (1, 2, 3)  # claims among which a certificate divides its alpha
SIDES: tuple[Sides, ...] = ("lower", "both")
PAGE_SIZES = (10_000, 100_000)
PAGE_ALPHAS = (1e-3, 0.01, 0.05)
PAGE_CLAIMS = 2  # label and score


def main() -> None:
    """Write the table anew."""
    table = {
        f"{VERSION}/{n}/{alpha / share!r}/{sides}": solve(n, alpha / share, sides)
        for n in SIZES
        for alpha in ALPHAS
        for share in SHARES
        for sides in SIDES
    }
    table |= {
        f"{VERSION}/{look.n}/{alpha * look.share / PAGE_CLAIMS!r}/both": solve(
            look.n, alpha * look.share / PAGE_CLAIMS, "both"
        )
        for n in PAGE_SIZES
        for alpha in PAGE_ALPHAS
        for look in plan_looks(n)
    }
    TARGET.write_text(json.dumps(table, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
