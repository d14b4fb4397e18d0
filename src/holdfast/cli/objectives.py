"""From the options of ``holdfast train`` to an objective."""

from dataclasses import fields

from holdfast.errors import InvalidArgument
from holdfast.train.objectives import Certified, Consistency, Objective, Plain, SmoothAdv

OBJECTIVES: dict[str, type[Objective]] = {
    "plain": Plain,
    "consistency": Consistency,
    "smoothadv": SmoothAdv,
    "certified": Certified,
}


def objective_named(name: str | None, options: dict[str, float | str | None]) -> Objective:
    """The objective with those options that were given; one that is not its own is refused.

    Without a name, ``--consistency`` and ``--sharpness`` are 0 unless given, and training is plain if both are.
    """
    given = {option: value for option, value in options.items() if value is not None}
    if name is None:
        terms = {option: given.get(option, 0.0) for option in ("consistency", "sharpness")}
        name = "consistency" if any(terms.values()) else "plain"
        given = {"copies": 1, **terms, **given} if any(terms.values()) else _without(given, terms)
    if name not in OBJECTIVES:
        raise InvalidArgument(f"--objective must be one of {', '.join(OBJECTIVES)}, got {name!r}")
    own = [field.name for field in fields(OBJECTIVES[name])]
    for option in given:
        if option not in own:
            owners = [each for each, kind in OBJECTIVES.items() if option in {field.name for field in fields(kind)}]
            raise InvalidArgument(
                f"--{option} is no option of the objective {name}, which takes {', '.join(f'--{each}' for each in own)}; "
                f"leave it out, or give --objective {' or '.join(owners)}"
            )
    return OBJECTIVES[name](**given)  # type: ignore[arg-type]


def _without(given: dict[str, float | str], left_out: dict[str, float | str]) -> dict[str, float | str]:
    return {option: value for option, value in given.items() if option not in left_out}
