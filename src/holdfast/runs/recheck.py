"""After a change of the network: which claims of a run still hold, at a fraction of its cost?"""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import DatasetError, InvalidArgument, RunError
from holdfast.inputs import CheckedInputs
from holdfast.measures import support_of
from holdfast.noise import check_seed
from holdfast.progress import progress_bar
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.claims import Claim, ClaimsAsked, check_certified, claimed_measure, claims_of
from holdfast.runs.rechecked import COMPARED, Outcome, Recheck, RecheckedClaim
from holdfast.runs.resume import data_fingerprints
from holdfast.runs.run import Run
from holdfast.sampling.requests import ClaimsRequest
from holdfast.sequential import Decision, SequentialTest
from holdfast.smoothed import SmoothedClassifier
from holdfast.zoo.datasets.given import as_labelled
from holdfast.zoo.datasets.labelled import Images, LabelledData


def recheck(
    smoothed: SmoothedClassifier,
    run: Run,
    data: LabelledData | NDArray[Any],
    asked: ClaimsAsked | None = None,
    *,
    seed: int | None = None,
    batch: int | None = None,
    progress: bool | None = None,
) -> Recheck:
    """Put the claims of a run to another network, with early stopping; ``data`` are the run's inputs.

    Claims about one input share its copies. Each has a test of its own and its own alpha, so sharing costs nothing; but
    nothing is said of all claims at once.

    Guarantee:
        That of each :class:`RecheckedClaim`.
    Requires:
        Noise that nobody looked at before: the claims depend on the copies that the run drew, so its own seed is refused. A
        secret seed, the default, sees to the rest.
    """
    if not (isinstance(smoothed, SmoothedClassifier) and isinstance(run, Run)):
        raise InvalidArgument(
            f"expected recheck(SmoothedClassifier(net, sigma), Run.open(path), data), got {type(smoothed).__name__} and "
            f"{type(run).__name__}"
        )
    wanted = asked or ClaimsAsked()
    known = check_certified(run)
    measure = claimed_measure(known, wanted.measure)
    _check_network(smoothed, known, measure)
    inputs = _checked_data(known, data)
    if seed is not None and seed == int(known.config["provenance"]["seed"], 16):
        raise InvalidArgument(
            "seed must not be the run's own: its claims depend on that noise, and must be tested on other; leave it out"
        )
    claims = claims_of(known, wanted)
    if not claims.claims:
        raise RunError(
            f"{run.path} has nothing to recheck: of the claims asked for, {claims.abstained} are of abstained certificates "
            f"and {claims.trivial} say nothing; ask for smaller radii or a smaller margin, or certify with a larger n"
        )
    n, n0 = int(known.config["n"]), int(known.config["n0"])
    copies = wanted.most_copies(n)
    about = [list(group) for _, group in groupby(claims.claims, attrgetter("index"))]
    where = {int(index): position for position, index in enumerate(inputs.indices)}
    positions = np.array([where[group[0].index] for group in about])
    checked = CheckedInputs(Images(inputs, positions), smoothed.inputs, smoothed.noise, known.step)
    key, support = check_seed(seed), support_of(measure, smoothed.measures)

    def requests() -> Iterator[ClaimsRequest]:
        for k, (group, at) in enumerate(zip(about, checked, strict=True)):
            tests = [
                SequentialTest(
                    at_least=claim.at_least,
                    radius=claim.radius,
                    noise=known.seen(at.shift),
                    support=support,
                    alpha=claim.alpha,
                    n_max=copies,
                )
                for claim in group
            ]
            yield ClaimsRequest(at.x, key, group[0].index, n0, copies, tests, measure, group[0].predicted, position=k)

    found: list[tuple[RecheckedClaim, ...]] = [()] * len(about)
    with progress_bar("rechecking", len(about), unit="inputs", show=progress) as on_inputs:
        for request in smoothed.run_requests(
            requests(), known.step, batch, in_order=False, inputs=len(about), say=on_inputs.say
        ):
            found[request.position] = _ended(about[request.position], *request.answer)
            on_inputs(1)
    return Recheck(
        run=known,
        model=smoothed.model.name,
        fingerprint=smoothed.fingerprint,
        asked=wanted,
        measure=measure,
        n=copies,
        claims=tuple(each for some in found for each in some),
        abstained=claims.abstained,
        trivial=claims.trivial,
        samples=sum(n0 + max(each.samples for each in some) for some in found),
        full=len(about) * (n0 + n),
    )


def _ended(claims: list[Claim], predicted: int, decisions: tuple[Decision, ...]) -> tuple[RecheckedClaim, ...]:
    if not decisions:
        reason = f"not certified: the network predicts class {predicted}"
        return tuple(RecheckedClaim(claim, Outcome.REFUTED, reason, 0) for claim in claims)
    return tuple(map(RecheckedClaim.of, claims, decisions))


def _check_network(smoothed: SmoothedClassifier, run: CertifiedRun, measure: str) -> None:
    """The network may be any; what is asked of it must be what the run says."""
    if smoothed.noise != run.noise:
        raise RunError(
            f"{run.path} is about {run.noise.title}, got {smoothed.noise.title}; its claims mean nothing under other noise"
        )
    here, there = support_of(measure, smoothed.measures), run.measure(measure).support
    if here != there:
        raise RunError(f"the {measure} is in {there} in {run.path}, and in {here} here; give the same measure")


def _checked_data(run: CertifiedRun, data: LabelledData | NDArray[Any]) -> LabelledData:
    """The run's inputs, compared by their fingerprints; an array has them in the order in which they were certified."""
    inputs = as_labelled(data)
    known = run.config.get("fingerprints")
    if known is None:
        raise RunError(
            f"{run.path} does not record which inputs it certified, so data cannot be compared with them; certify again"
        )
    found = data_fingerprints(inputs)
    different = [name for name in COMPARED if found[name] != known.get(name)]
    if different:
        raise DatasetError(
            f"{inputs.name} is not what {run.path} was certified on: other {' and '.join(different)}; give the run's own data"
        )
    return inputs
