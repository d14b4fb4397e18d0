"""From what a user types after ``--engine`` to who runs the noisy copies."""

from holdfast.cli.parsing import choice
from holdfast.errors import InvalidArgument
from holdfast.sampling import Engine, Local
from holdfast.sampling.ray import RayCluster


def engine_named(engine: str, *, workers: int | None, cores_per_worker: int | None, address: str | None) -> Engine:
    """The local machine, or a Ray cluster with its options, which mean nothing locally."""
    if choice(engine, "--engine", ("local", "ray")) == "ray":
        return RayCluster(
            workers=workers, cores_per_worker=1 if cores_per_worker is None else cores_per_worker, address=address
        )
    for option, value in {"--workers": workers, "--cores-per-worker": cores_per_worker, "--address": address}.items():
        if value is not None:
            raise InvalidArgument(f"{option} is about a cluster; add --engine ray, or leave it out")
    return Local()
