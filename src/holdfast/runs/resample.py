"""Check a run with its network: fingerprints, the spot check, and fresh noise for a few inputs."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.certificates.evidence import Evidence
from holdfast.errors import InvalidArgument
from holdfast.inputs import CheckedInputs
from holdfast.models.spot_check import other_answers
from holdfast.noise import secret_seed
from holdfast.progress import progress_bar
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.compatibility import histogram_p_value, selection_p_value, votes_p_value
from holdfast.runs.resume import data_fingerprints
from holdfast.runs.store import Entry
from holdfast.runs.verification import Check
from holdfast.sampling.requests import RecountRequest, Sampled
from holdfast.smoothed import SmoothedClassifier
from holdfast.validation import check_count, check_share
from holdfast.zoo.datasets.given import as_labelled
from holdfast.zoo.datasets.labelled import Images, LabelledData

ERROR_RATE = 1e-3


def network_check(run: CertifiedRun, smoothed: SmoothedClassifier) -> Check:
    """Whether this is the run's network, by its fingerprint and by its answers to the rows of the spot check."""
    return Check.of(
        "network", "the network: fingerprint, noise, and answers to the spot check", lambda: _others(run, smoothed)
    )


def _others(run: CertifiedRun, smoothed: SmoothedClassifier) -> Iterator[str]:
    theirs, model = run.config["provenance"], smoothed.model
    for name, mine in (("model", model.name), ("precision", model.precision)):
        if theirs[name] != mine:
            yield f"the run's {name} is {theirs[name]}, and this is {mine}"
    if smoothed.noise != run.noise:
        yield f"the run's noise is {run.noise.title}, and this is {smoothed.noise.title}"
    prints = run.fingerprint, smoothed.fingerprint
    if None in prints and run.spot_check is None:
        yield "whether this is the run's network cannot be told: there is neither a fingerprint nor a spot check"
    elif None not in prints and prints[0] != prints[1]:
        yield "the network is another: its fingerprint is not the one in run.json"
    fault = "" if run.spot_check is None else other_answers(smoothed.model, run.spot_check)
    if fault:
        yield f"the network answers otherwise than the run's: on the rows of the spot check, the {fault}"


def data_check(run: CertifiedRun, data: LabelledData) -> Check:
    """Whether these are the run's inputs, by their fingerprints."""
    known = run.config.get("fingerprints")
    if known is None:
        return Check("data", "no fingerprints: the data cannot be compared", made=False)
    found = data_fingerprints(data)
    wrong = tuple(f"the {name} of the data are not the run's" for name in found if known.get(name) != found[name])
    return Check("data", "the data: fingerprints of images, labels and indices", wrong)


def resample(
    run: CertifiedRun,
    smoothed: SmoothedClassifier,
    data: LabelledData | NDArray[Any],
    *,
    inputs: int,
    error_rate: float = ERROR_RATE,
    seed: int | None = None,
    progress: bool | None = None,
) -> Check:
    """Draw fresh noise for a few random inputs, n copies each, and test whether the stored counts are of the same network.

    Guarantee:
        A run whose counts are what this network gives passes with probability at least ``1 - error_rate``, over the noise of
        both: each test of each input gets an equal share of it (:mod:`holdfast.runs.compatibility`).
    Requires:
        The run's own data, noise and precision, and noise independent of the run's: a secret seed, which is the default.

    Parameters:
        inputs: how many, all if the run has fewer.
        seed: keys the choice of inputs and the noise, for a replay.
    """
    check_count("the inputs to resample", inputs)
    rate, known_seed = check_share("error_rate", error_rate), secret_seed() if seed is None else seed
    counted = [info.name for info in run.counted]
    if counted != [measure.name for measure in smoothed.measures]:
        raise InvalidArgument(f"the run counted {', '.join(counted)}; give the SmoothedClassifier the same measures")
    chosen = np.zeros(len(run), dtype=np.bool_)
    chosen[np.random.default_rng(known_seed).permutation(len(run))[:inputs]] = True
    entries = list(run.some(chosen))
    known = as_labelled(data)
    where = {int(index): position for position, index in enumerate(known.indices)}
    missing = [entry.index for entry in entries if entry.index not in where]
    if missing:
        raise InvalidArgument(f"the data has no input {missing[0]}, which the run has; give the run's own data")
    positions = np.array([where[entry.index] for entry in entries])
    at = CheckedInputs(Images(known, positions), smoothed.inputs, smoothed.noise, run.step)
    requests = (
        RecountRequest(point.x, known_seed, k, entry.certificate.n0, entry.certificate.n, entry.certificate.predicted)
        for k, (entry, point) in enumerate(zip(entries, at, strict=True))
    )
    level = rate / (len(entries) * (2 + len(counted)))
    said = f"fresh noise for {len(entries)} inputs; what is true is flagged with probability {rate:g} at most"
    copies = sum(entry.certificate.n0 + entry.certificate.n for entry in entries)
    with progress_bar("sampling", copies, show=progress) as on_copies:
        done = smoothed.run_requests(requests, run.step, None, on_copies, inputs=len(entries), say=on_copies.say)
        fresh = (request.answer for request in done)
        return Check.of("resample", said, lambda: _incompatible(entries, fresh, level))


def _incompatible(entries: list[Entry], fresh: Iterator[Sampled], level: float) -> Iterator[str]:
    for entry, found in zip(entries, fresh, strict=True):
        predicted, stored = entry.certificate.predicted, entry.certificate.evidence
        p_values = {"class": selection_p_value(predicted, found.selection), **_p_values(stored, found.evidence)}
        for name, p in p_values.items():
            if p <= level:
                yield f"input {entry.index}: the stored {name} is not what fresh noise gives (p = {p:.2g}, allowed {level:.2g})"


def _p_values(stored: Evidence, fresh: Evidence) -> dict[str, float]:
    found = {"votes": votes_p_value(stored.votes, fresh.votes, stored.n)}
    for info in stored.measures:
        own = stored[info.name]
        found[f"{info.name} histogram"] = histogram_p_value(own, fresh[info.name].coarser(own.grid.bins))
    return found
