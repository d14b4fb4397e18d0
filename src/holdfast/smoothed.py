"""The smoothed classifier: from a model and an input to a certificate, in one call."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from holdfast.bounds import DEFAULT_METHOD, Method
from holdfast.certificates.certificate import Certificate, Provenance
from holdfast.certificates.classes import CLASS_CLAIMS, ClassCertificate, check_class_question
from holdfast.certificates.evidence import MOST_SELECTION
from holdfast.certificates.settings import Settings
from holdfast.errors import InvalidArgument
from holdfast.measures import DEFAULT_MEASURES, Measure
from holdfast.models import Model, as_model
from holdfast.noise import Noise, as_noise, check_seed, sigma_of
from holdfast.progress import OnDone, ignore, progress_bar
from holdfast.sampling import CertifyRequest, DecideRequest, Engine, Local, RadiusRequest
from holdfast.sampling.batch_size import check_batch
from holdfast.sampling.batches import noise_name
from holdfast.sampling.inputs import CheckedInputs, Input, InputSource, as_input, check_kind
from holdfast.sampling.requests import AnyRequest, ClassesRequest, Sampled
from holdfast.sequential import AdaptiveRadius, Decision, SequentialTest
from holdfast.sequential.radius import RadiusSearch
from holdfast.triage import Triage, Verdict
from holdfast.validation import check_alpha, check_count, check_sides, check_threshold
from holdfast.version import installed_version


class SmoothedClassifier:
    """A classifier averaged over noise, and its certificates.

    Parameters:
        net: a ``torch.nn.Module`` that maps a batch to class scores, a :class:`Model`, or any function of a NumPy batch, such
            as scikit-learn's ``predict_proba``.
        sigma: standard deviation of Gaussian noise, in the units of the input (pixels in [0, 1] for images).
        noise: another noise, instead of ``sigma``: ``Uniform(0.5)`` certifies against l1 perturbations.
        measures: what is measured beside the prediction score and the margin, such as ``Mass({3, 5})``.
        outputs: what the model returns, ``"logits"`` or ``"probabilities"``; it is checked.
        inputs: ``"images"`` refuses values far outside [0, 1], ``"any"`` does not; ``"auto"`` takes a
            (1 or 3, height, width) array for an image.
        device: where to run; by default where the module's parameters are. ``"cuda"`` uses all visible GPUs.
        batch: this many noisy copies go through the model at once; found automatically if not given, and halved if
            the device runs out of memory.
        precision: of convolutions and matrix products: ``"float32"``, ``"tf32"``, ``"bfloat16"`` or ``"float16"``. The
            certificate is about the network at that precision, and records it.
        compile: compile the module before sampling; by default if the work per input is worth it.
        engine: runs the noisy copies: ``Local()``, or ``RayCluster(...)``. The certificates are the same.

    A module's structure is fixed here: what it is made of, its attributes and its hooks. Weights that are changed in place
    later (by an optimiser, ``load_state_dict``) count at the next call.
    """

    def __init__(
        self,
        net: nn.Module | Model | Callable[[Any], Any],
        sigma: float | None = None,
        *,
        noise: Noise | None = None,
        measures: Sequence[Measure] = (),
        outputs: str = "logits",
        inputs: str = "auto",
        device: str | torch.device | None = None,
        batch: int | None = None,
        precision: str = "float32",
        compile: bool | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.noise = as_noise(noise, sigma)
        self.measures = _check_measures(measures)
        self.inputs = check_kind(inputs)
        if compile is not None and not isinstance(compile, bool):
            raise InvalidArgument(f"compile must be True, False, or None to leave it to Holdfast, got {compile!r}")
        if engine is not None and not isinstance(engine, Engine):
            raise InvalidArgument(f"engine must be Local() or RayCluster(workers=...), got {engine!r}")
        self.compile = compile
        self.model = as_model(net, outputs=outputs, device=device, precision=precision, compiled=compile)
        self.engine = Local() if engine is None else engine
        self._batch = check_batch(batch)
        self._compared: object = None

    def __repr__(self) -> str:
        return f"SmoothedClassifier({self.model.name}, {self.noise}, device={str(self.model.device)!r})"

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, if it is Gaussian."""
        return sigma_of(self.noise)

    @property
    def fingerprint(self) -> str | None:
        """Which network this is, by its structure and weights; None if that cannot be told. Classes count by their names."""
        return self.model.fingerprint()

    def certify(
        self,
        x: Input,
        *,
        n: int = 100_000,
        n0: int = 100,
        alpha: float = 1e-3,
        claims: Sequence[str] | None = None,
        sides: str = "lower",
        method: Method = DEFAULT_METHOD,
        seed: int | None = None,
        index: int = 0,
        batch: int | None = None,
        progress: bool | None = None,
    ) -> Certificate:
        """Certify one input (without a batch dimension).

        Guarantee:
            The certificate's: everything on it holds with probability at least ``1 - alpha``.

        Parameters:
            n: noisy copies for estimation; n0: other copies, to choose the class.
            alpha: total failure probability, shared equally by ``claims``.
            claims: of ``"label"`` and the names of what is measured; by default all of them.
            sides: ``"lower"``, or ``"both"`` for upper bounds too (each side then gets half).
            method: which bound; the default is the best one for a whole curve.
            seed: for a replay; by default secret, drawn from the operating system, and recorded.
            index: keys the noise together with the seed; to replay input i of a run, give its index.
            batch: overrides the classifier's batch size for this call.
            progress: show a progress bar; by default if stderr is a terminal.
        """
        settings = Settings(n, n0, alpha, claims, sides, method)
        return next(self.stream([x], [index], settings, seed=seed, batch=batch, progress=progress))

    def certify_many(
        self,
        xs: InputSource,
        *,
        n: int = 100_000,
        n0: int = 100,
        alpha: float = 1e-3,
        claims: Sequence[str] | None = None,
        sides: str = "lower",
        method: Method = DEFAULT_METHOD,
        seed: int | None = None,
        batch: int | None = None,
        progress: bool | None = None,
    ) -> list[Certificate]:
        """Certify each input of a batch, or of a dataset of inputs or (input, label) pairs.

        ``alpha`` is each certificate's own; nothing is claimed about all of them at once. Input number i gets the noise
        keyed by i, so the first of many has the certificate it would have alone with the same seed.
        """
        settings = Settings(n, n0, alpha, claims, sides, method)
        return list(self.stream(xs, None, settings, seed=seed, batch=batch, progress=progress))

    def stream(
        self,
        xs: InputSource,
        indices: Sequence[int] | None,
        settings: Settings,
        *,
        seed: int | None = None,
        batch: int | None = None,
        progress: bool | None = None,
    ) -> Iterator[Certificate]:
        """Certificates one after the other, as they are finished; ``indices`` key the noise of each input.

        Do not change the module until the last certificate has come.
        """
        asked = settings.resolved([measure.info for measure in self.measures], self.noise)
        known_seed, inputs = check_seed(seed), CheckedInputs(xs, self.inputs, self.noise)
        requests = (
            CertifyRequest(inputs[k], known_seed, index, asked.n0, asked.n)
            for k, index in enumerate(_keys(indices, len(inputs)))
        )
        with progress_bar("certifying", len(inputs) * (asked.n0 + asked.n), show=progress) as on_copies:
            for request in self._run(requests, batch=batch, on_copies=on_copies):
                yield self.certificate(asked, request.answer, request)

    def certificate(self, settings: Settings, found: Sampled, request: AnyRequest) -> Certificate:
        """The certificate of what was sampled."""
        return Certificate(
            predicted=found.selection.predicted,
            n0=settings.n0,
            alpha=settings.alpha,
            claims=tuple(settings.claims or ()),
            sides=check_sides(settings.sides),
            method=settings.method,
            evidence=found.evidence,
            provenance=self.provenance(request.seed, request.index, request.seconds),
        )

    def decide(
        self,
        x: Input,
        *,
        at_least: float,
        radius: float,
        measure: str = "score",
        alpha: float = 1e-3,
        n_max: int = 100_000,
        n0: int = 100,
        seed: int | None = None,
        index: int = 0,
        batch: int | None = None,
    ) -> Decision:
        """Is the predicted class's average ``measure`` at least ``at_least`` within ``radius``? Stops as soon as it knows.

        Guarantee:
            The decision's: if the statement is false it is certified with probability at most ``alpha``, although the
            number of noisy copies was chosen by looking at them.
        Requires:
            ``at_least`` and ``radius`` were fixed without looking at copies drawn with this seed and index.
        """
        asked = {"at_least": at_least, "radius": radius, "measure": measure, "alpha": alpha, "n_max": n_max, "n0": n0}
        return self.decide_many([x], **asked, seed=seed, indices=[index], batch=batch, progress=False)[0]  # type: ignore[arg-type]

    def decide_many(
        self,
        xs: InputSource,
        *,
        at_least: float,
        radius: float,
        measure: str = "score",
        alpha: float = 1e-3,
        n_max: int = 100_000,
        n0: int = 100,
        seed: int | None = None,
        indices: Sequence[int] | None = None,
        batch: int | None = None,
        progress: bool | None = None,
        on_decision: Callable[[int, Decision], None] = ignore,
    ) -> list[Decision]:
        """:meth:`decide` for many inputs; whenever one is decided the next takes its place, so batches stay full.

        ``alpha`` is each decision's own. ``indices`` key the noise; by default the position. ``on_decision`` is told an
        input's position and its decision as soon as it is made.
        """
        check_count("n0", n0, at_most=MOST_SELECTION)
        support = self._support(measure)

        def test() -> SequentialTest:
            return SequentialTest(
                at_least=at_least, radius=radius, noise=self.noise, support=support, alpha=alpha, n_max=n_max
            )

        test()  # refuses before anything is sampled
        known_seed, inputs = check_seed(seed), CheckedInputs(xs, self.inputs, self.noise)
        requests = (
            DecideRequest(inputs[k], known_seed, index, n0, test(), measure, position=k)
            for k, index in enumerate(_keys(indices, len(inputs)))
        )
        found: dict[int, Decision] = {}
        with progress_bar("deciding", len(inputs), unit="inputs", show=progress) as on_decided:
            for request in self._run(requests, batch=batch, in_order=False):
                found[request.position] = request.answer
                on_decision(request.position, request.answer)
                on_decided(1)
        return [found[position] for position in range(len(inputs))]

    def find_radius(
        self,
        x: Input,
        *,
        at_least: float,
        within: float = 0.01,
        measure: str = "score",
        alpha: float = 1e-3,
        n_max: int = 100_000,
        n0: int = 100,
        seed: int | None = None,
        index: int = 0,
        batch: int | None = None,
    ) -> AdaptiveRadius:
        """The radius within which the predicted class's average ``measure`` is at least ``at_least``, to within a tolerance.

        Guarantee:
            The result's: the radius is certified with probability at least ``1 - alpha``, although the number of noisy
            copies was chosen by looking at them.
        """
        check_threshold(at_least, self._support(measure))
        check_count("n0", n0, at_most=MOST_SELECTION)
        search = RadiusSearch(at_least=at_least, within=within, alpha=alpha, n_max=n_max)
        inside, (key,) = CheckedInputs([x], self.inputs, self.noise)[0], _keys([index], 1)
        request = RadiusRequest(inside, check_seed(seed), key, n0, search, measure)
        return next(self._run([request], batch=batch)).answer  # type: ignore[no-any-return]

    def triage(
        self, x: Input, triage: Triage, *, seed: int | None = None, index: int = 0, batch: int | None = None
    ) -> Verdict:
        """Accept a class for this input, or hand it to a human: the deployment side of ``triage``.

        An image whose pixels were pushed out of the range that images may have is moved back to its edge, which
        brings it no further from any image inside: the adversary gains nothing, and is not refused.

        Guarantee:
            The triage's, for every input within its radius of one drawn like the calibration inputs.
        Requires:
            The same ``inputs=``, ``outputs=`` and network as at calibration (the network is compared, if the triage
            knows its fingerprint), and a seed that whoever chose the input does not know; by default it is secret.
        """
        asked = (triage.fingerprint, self.model.weights_version)
        if asked != self._compared:  # reading all weights takes a moment
            triage.check_network(self.fingerprint)
            self._compared = asked
        inside = as_input(x, self.inputs, self.noise, leeway=triage.radius)
        stream = self.stream([inside], [index], triage.settings, seed=seed, batch=batch, progress=False)
        return triage.decide(next(stream))

    def certify_classes(
        self,
        x: Input,
        *,
        n: int = 100_000,
        n0: int = 100,
        alpha: float = 1e-3,
        claims: Sequence[str] = CLASS_CLAIMS,
        method: Method = DEFAULT_METHOD,
        seed: int | None = None,
        index: int = 0,
        batch: int | None = None,
        progress: bool | None = None,
    ) -> ClassCertificate:
        """Bounds for every class at once, with one alpha: "nothing within R makes *stop* less than 0.8 or *yield* more than 0.05".

        Guarantee:
            The certificate's: everything on it, for all classes and both sides, holds with probability at least
            ``1 - alpha``. Memory does not depend on n.
        """
        check_count("n", n)
        check_count("n0", n0, at_most=MOST_SELECTION)
        check_alpha(alpha)
        chosen = (claims,) if isinstance(claims, str) else tuple(claims)
        check_class_question(chosen, method)
        method.check_noise(self.noise)
        inside, (key,) = CheckedInputs([x], self.inputs, self.noise)[0], _keys([index], 1)
        request = ClassesRequest(inside, check_seed(seed), key, n0, n)
        with progress_bar("certifying", n0 + n, show=progress) as on_copies:
            predicted, counts = next(self._run([request], batch=batch, on_copies=on_copies)).answer
        provenance = self.provenance(request.seed, key, request.seconds)
        return ClassCertificate(predicted, n0, alpha, chosen, method, counts, provenance)

    def provenance(self, seed: int, index: int, seconds: float) -> Provenance:
        """What a certificate records about the origin of its noisy copies."""
        model = self.model
        return Provenance(
            seed=seed,
            index=index,
            noise=noise_name(self.noise, model.device),
            model=model.name,
            device=str(model.device),
            precision=model.precision,
            compiled=model.compiled,
            version=installed_version(),
            seconds=seconds,
        )

    def _run(
        self,
        requests: Iterable[AnyRequest],
        *,
        batch: int | None,
        on_copies: OnDone = ignore,
        in_order: bool = True,
    ) -> Iterator[AnyRequest]:
        size = check_batch(batch) or self._batch
        return self.engine.run(
            self.model,
            self.noise,
            requests,
            measures=self.measures,
            batch=size,
            on_copies=on_copies,
            in_order=in_order,
        )

    def _support(self, name: str) -> tuple[float, float]:
        for measure in self.measures:
            if measure.name == name:
                return measure.support
        known = " or ".join(f'"{measure.name}"' for measure in self.measures)
        raise InvalidArgument(f"measure must be {known}, got {name!r}")


def _keys(indices: Sequence[int] | None, inputs: int) -> Sequence[int]:
    """What keys the noise of each input: by default its position."""
    if indices is None:
        return range(inputs)
    keys = [check_count("index", int(each), at_least=0) for each in indices]
    if len(keys) != inputs or len(set(keys)) != len(keys):
        raise InvalidArgument(f"indices must be {inputs} different numbers, one for each input, got {len(keys)}")
    return keys


def _check_measures(further: Sequence[Measure]) -> tuple[Measure, ...]:
    """The default measures and these."""
    measures = (*DEFAULT_MEASURES, *further)
    for measure in further:
        if not isinstance(measure, Measure):
            raise InvalidArgument(f"measures must be such as Mass({{3, 5}}), got {measure!r}")
    names = [measure.info.name for measure in measures]
    if len(set(names)) != len(names):
        raise InvalidArgument(f"measures must have different names, got {', '.join(names)}")
    return measures
