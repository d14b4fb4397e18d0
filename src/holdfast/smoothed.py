"""The smoothed classifier: from a network and an input to a certificate, in one call."""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast.bounds import DEFAULT_METHOD, Method
from holdfast.certificates.certificate import Certificate, Provenance, check_claims, claimable
from holdfast.certificates.classes import CLASS_CLAIMS, ClassCertificate, check_class_question
from holdfast.certificates.evidence import MOST_SELECTION
from holdfast.certificates.feasibility import check_feasible
from holdfast.errors import InvalidArgument, InvalidInput
from holdfast.measures import DEFAULT_MEASURES, Measure, MeasureInfo
from holdfast.models import TorchModel, check_model
from holdfast.noise import Noise, as_noise, check_seed
from holdfast.noise.drawing import blocks, counter
from holdfast.progress import ignore, progress_bar
from holdfast.sampling import Compute, Engine, Local, Question, Task
from holdfast.sampling.batching import SMALLEST_BATCH, check_batch, default_batch, reused_batch
from holdfast.sampling.decisions import Asked, decide_all
from holdfast.sampling.inputs import as_input, check_kind
from holdfast.sampling.local import LocalEngine
from holdfast.scores import ScoreHistogram, Scores
from holdfast.sequential import Decision, SequentialTest
from holdfast.sequential.radius import AdaptiveRadius, adaptive_radius
from holdfast.triage import Triage, Verdict
from holdfast.validation import check_alpha, check_count, check_number, check_sides, check_threshold
from holdfast.version import installed_version

Input = Tensor | NDArray[np.floating]
_preparing = RLock()
"""Looking at a module and copying it is done by one thread at a time; sampling is not."""


class InputSource(Protocol):
    """Anything with a length whose items are inputs, or (input, label) pairs: a tensor, an array, a list, a dataset."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> Any: ...


@dataclass(frozen=True)
class Settings:
    """What one certificate is asked for; checked as a whole before anything is sampled."""

    n: int = 100_000
    n0: int = 100
    alpha: float = 1e-3
    claims: Sequence[str] | None = None
    sides: str = "lower"
    method: Method = DEFAULT_METHOD
    measures: Sequence[MeasureInfo] = tuple(measure.info for measure in DEFAULT_MEASURES)

    def __post_init__(self) -> None:
        check_count("n", self.n)
        check_count("n0", self.n0, at_most=MOST_SELECTION)
        sides = check_sides(self.sides)
        known = claimable(self.measures)
        claims = known if self.claims is None else check_claims(self.claims, known)
        object.__setattr__(self, "alpha", check_alpha(self.alpha))
        object.__setattr__(self, "claims", claims)
        if not isinstance(self.method, Method):
            raise InvalidArgument(
                f"method must be one such as CDF(band=DKW()) or Naive(mean=Hoeffding()), got {self.method!r}"
            )
        if self.method.needs_order:
            raise InvalidArgument(
                f"a certificate keeps counts, not the order of the samples that {self.method.name} needs; use "
                f"CDF(band=BerkJones()), or decide(x, ...) for a question about one radius"
            )
        check_feasible(self.n, alpha=self.alpha, claims=claims, sides=sides, method=self.method, measures=self.measures)


def triage_settings(triage: Triage) -> Settings:
    """The counts that a triage's rule reads; since it reads nothing else, alpha only has to allow as few copies."""
    return Settings(triage.n, triage.n0, alpha=0.5, claims=("score",))


class SmoothedClassifier:
    """A classifier averaged over Gaussian noise, and its certificates.

    Parameters:
        net: any ``torch.nn.Module`` that maps a batch to class scores.
        sigma: standard deviation of the noise, in the units of the input (pixels in [0, 1] for images).
        outputs: what the module returns, ``"logits"`` or ``"probabilities"``; it is checked.
        inputs: ``"images"`` refuses values far outside [0, 1], ``"any"`` does not; ``"auto"`` takes a
            (1 or 3, height, width) array for an image.
        device: where to run; by default where the module's parameters are. ``"cuda"`` uses all visible GPUs.
        batch: this many noisy copies go through the module at once; found automatically if not given, and halved if
            the device runs out of memory.
        precision: of convolutions and matrix products: ``"float32"``, ``"tf32"``, ``"bfloat16"`` or ``"float16"``. The
            certificate is about the network at that precision, and records it.
        compile: compile the module before sampling; by default if the work per input is worth it.
        engine: who runs the copies: ``Local()``, or ``RayCluster(...)``. The certificates are the same.
    """

    def __init__(
        self,
        net: nn.Module,
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
        engine: Compute | None = None,
    ) -> None:
        self.noise = as_noise(noise, sigma)
        self.sigma = self.noise.scale
        self.measures: tuple[Measure, ...] = (*DEFAULT_MEASURES, *measures)
        check_kind(inputs)
        if compile is not None and not isinstance(compile, bool):
            raise InvalidArgument(f"compile must be True, False, or None to leave it to Holdfast, got {compile!r}")
        self.compile = compile
        self._kind = inputs
        self._model = TorchModel(net, outputs=outputs, device=device, precision=precision, compiled=compile)
        self._batch = check_batch(batch)
        self._asked: object = None
        self._operations = 0.0
        self._compute = _check_compute(engine)
        self._compared: object = None

    def __repr__(self) -> str:
        return f"SmoothedClassifier({self._model.name}, sigma={self.sigma:g}, device={str(self._model.device)!r})"

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
            sides: ``"lower"``, or ``"both"`` for upper bounds too (each side then gets half).
            method: which bound; the default is the best one for a whole curve.
            seed: for a replay; by default secret, drawn from the operating system, and recorded.
            index: keys the noise together with the seed; to replay input i of a run, give its index.
            batch: overrides the classifier's batch size for this call.
            progress: show a progress bar; by default if stderr is a terminal.
        """
        settings = self._settings(n, n0, alpha, claims, sides, method)
        found = self._stream(
            [x], [check_count("index", index, at_least=0)], settings, seed=seed, batch=batch, progress=progress
        )
        return next(iter(list(found)))

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
        settings = self._settings(n, n0, alpha, claims, sides, method)
        _check_batch_of_inputs(xs)
        return list(self._stream(xs, range(len(xs)), settings, seed=seed, batch=batch, progress=progress))

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
        return self.decide_many(
            [x],
            at_least=at_least,
            radius=radius,
            measure=measure,
            alpha=alpha,
            n_max=n_max,
            n0=n0,
            seed=seed,
            indices=[index],
            batch=batch,
            progress=False,
        )[0]

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
        on_decision: Callable[[int, Decision], None] = lambda _position, _decision: None,
    ) -> list[Decision]:
        """:meth:`decide` for many inputs; whenever one is decided the next takes its place, so batches stay full.

        ``alpha`` is each decision's own. ``indices`` key the noise; by default the position. ``on_decision`` is told an
        input's position and its decision as soon as it is made.
        """
        _check_batch_of_inputs(xs)
        keys = list(range(len(xs))) if indices is None else [check_count("index", each, at_least=0) for each in indices]
        if len(keys) != len(xs) or len(set(keys)) != len(keys):
            raise InvalidArgument(f"indices must be {len(xs)} different numbers, one for each input, got {len(keys)}")
        support = self._support_of(measure)
        check_count("n0", n0, at_most=MOST_SELECTION)

        def question() -> SequentialTest:
            return SequentialTest(
                at_least=at_least, radius=radius, noise=self.noise, support=support, alpha=alpha, n_max=n_max
            )

        question()  # refuses before anything is sampled
        known_seed = check_seed(seed)
        engine, shape = self._engine_for(xs, n0 + n_max, known_seed, batch)
        asked = (Asked(k, key, self._checked(xs, k, shape)) for k, key in enumerate(keys))
        found: dict[int, Decision] = {}
        with progress_bar("deciding", len(xs), unit="inputs", show=progress) as on_decided:
            for each in decide_all(engine, asked, question, measure=measure, n0=n0):
                found[each.position] = replace(each.decision, predicted=each.predicted, seed=known_seed)
                on_decision(each.position, found[each.position])
                on_decided(1)
        return [found[position] for position in range(len(xs))]

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
        check_threshold(at_least, self._support_of(measure))
        check_number("within", within)
        check_alpha(alpha)
        known_seed = check_seed(seed)
        predicted, scores = self._scores_of(x, measure, n_max, n0=n0, seed=known_seed, index=index, batch=batch)
        seen: list[ScoreHistogram] = []

        def first(n: int) -> Scores:
            start = sum(each.n for each in seen)
            more = scores(start, n)
            seen[:] = [seen[0] + more if seen else more]
            return seen[0]

        found = adaptive_radius(first, at_least=at_least, within=within, alpha=alpha, n_max=n_max)
        return replace(found, predicted=predicted, seed=known_seed)

    def _scores_of(
        self, x: Input, measure: str, n_max: int, *, n0: int, seed: int, index: int, batch: int | None
    ) -> tuple[int, Callable[[int, int], ScoreHistogram]]:
        """The chosen class, and its scores on demand: of any span of copies."""
        check_count("n0", n0, at_most=MOST_SELECTION)
        key = check_count("index", index, at_least=0)
        engine, _ = self._engine_for([x], n0 + n_max, seed, batch)
        inside = self._checked([x], 0, None)
        predicted = engine.select([Task(key, inside, 0, n0)], on_copies=ignore)[0].predicted

        def scores(start: int, stop: int) -> ScoreHistogram:
            evidence = engine.estimate([Task(key, inside, start, stop, predicted)], on_copies=ignore)[0]
            return evidence[measure]

        return predicted, scores

    def triage(
        self, x: Input, triage: Triage, *, seed: int | None = None, index: int = 0, batch: int | None = None
    ) -> Verdict:
        """Accept a class for this input, as it came, or hand it over: the service's side of ``triage``.

        An image whose pixels were pushed out of the range that images may have is moved back to its edge, which
        brings it no further from any image inside: the adversary gains nothing, and is not refused.

        Guarantee:
            The triage's, for every input within its radius of one drawn like the calibration inputs.
        Requires:
            The same ``inputs=``, ``outputs=`` and network as at calibration (the network is compared, if the triage
            knows its fingerprint), and a seed that whoever chose the input does not know; by default it is secret.
        """
        self._compare(triage)
        inside = as_input(x, self._kind, self.sigma, leeway=triage.radius)
        settings = triage_settings(triage)
        certificate = self.certify(
            inside,
            n=settings.n,
            n0=settings.n0,
            alpha=settings.alpha,
            claims=settings.claims,
            seed=seed,
            index=index,
            batch=batch,
            progress=False,
        )
        return triage.decide(certificate)

    def _compare(self, triage: Triage) -> None:
        """Refuse a triage of another network; weights are read only when either of the two has changed."""
        asked = (triage.fingerprint, self._model.revision)
        if asked != self._compared:
            triage.check_network(self.fingerprint)
            self._compared = asked

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
        key, known_seed = check_count("index", index, at_least=0), check_seed(seed)
        engine, _ = self._engine_for([x], n0 + n, known_seed, batch)
        inside = self._checked([x], 0, None)
        began = time.monotonic()
        with progress_bar("certifying", n0 + n, show=progress) as on_copies:
            predicted = engine.select([Task(key, inside, 0, n0)], on_copies=on_copies)[0].predicted
            counts = engine.count_classes([Task(key, inside, 0, n, predicted)], on_copies=on_copies)[0]
        provenance = self.provenance(known_seed, key, time.monotonic() - began)
        return ClassCertificate(predicted, n0, alpha, chosen, method, counts, provenance)

    def stream(
        self,
        xs: InputSource,
        indices: Sequence[int],
        settings: Settings,
        *,
        seed: int | None = None,
        progress: bool | None = None,
    ) -> Iterator[Certificate]:
        """Certificates one after the other, as they are finished; ``indices`` key the noise of each input.

        They are about the module as it is meanwhile: leave it alone until the last has come.
        """
        return self._stream(xs, indices, settings, seed=seed, batch=None, progress=progress)

    def _stream(
        self,
        xs: InputSource,
        indices: Sequence[int],
        settings: Settings,
        *,
        seed: int | None,
        batch: int | None,
        progress: bool | None,
    ) -> Iterator[Certificate]:
        for some in self.windows(xs, indices, settings, seed=seed, batch=batch, progress=progress):
            yield from some

    def windows(
        self,
        xs: InputSource,
        indices: Sequence[int],
        settings: Settings,
        *,
        seed: int | None = None,
        batch: int | None = None,
        progress: bool | None = None,
    ) -> Iterator[list[Certificate]]:
        """The certificates of :meth:`stream`, those that are finished together in one list: between lists, work goes on."""
        known_seed = check_seed(seed)
        engine, shape = self._engine_for(xs, settings.n0 + settings.n, known_seed, batch)
        questions = (
            Question(int(index), self._checked(xs, position, shape), settings.n0, settings.n)
            for position, index in enumerate(indices)
        )
        asked = iter(indices)
        with progress_bar("certifying", len(xs) * (settings.n0 + settings.n), show=progress) as on_copies:
            for answers in engine.answer(questions, on_copies=on_copies):
                yield [
                    Certificate(
                        predicted=answer.selection.predicted,
                        n0=settings.n0,
                        alpha=settings.alpha,
                        claims=tuple(settings.claims or ()),
                        sides=check_sides(settings.sides),
                        method=settings.method,
                        evidence=answer.evidence,
                        provenance=self.provenance(known_seed, int(index), answer.seconds),
                    )
                    for index, answer in zip(itertools.islice(asked, len(answers)), answers, strict=True)
                ]

    def engine(self, x: Input) -> Engine:
        """For those who keep questions of their own, such as a service: runs tasks of inputs like ``x``, each with its seed."""
        return self._engine_for([x], 1, 0, None)[0]

    @property
    def inputs(self) -> str:
        """What its inputs are taken for: ``"images"``, ``"any"`` or ``"auto"``."""
        return self._kind

    @property
    def fingerprint(self) -> str | None:
        """Which network this is, by its structure and weights; None if that cannot be told. Classes count by their names."""
        return self._model.fingerprint

    def provenance(self, seed: int, index: int, seconds: float) -> Provenance:
        """What is recorded of where a certificate's noisy copies came from."""
        device = self._model.device
        return Provenance(
            seed=seed,
            index=index,
            noise=f"{self.noise.kind}/{blocks.GENERATOR if device.type == 'cpu' else counter.GENERATOR}",
            model=self._model.name,
            device=str(device),
            precision=self._model.precision,
            compiled=self._model.compiled,
            version=installed_version(),
            seconds=seconds,
        )

    def _engine_for(self, xs: InputSource, copies: int, seed: int, batch: int | None) -> tuple[Engine, torch.Size]:
        """Who will run the copies of each input, and the inputs' shape; bad batches, inputs and models are refused here."""
        asked = check_batch(batch) or self._batch
        with _preparing:
            first = self._probe(xs)
            self._model.expect(self._operations * copies)
            self._model.refresh()
            best = default_batch(self._model.device, first.shape, self._operations, copies)
            size = asked or reused_batch(best, self._model.compiled_batch(first.shape))
        engine = self._compute.engine(self._model, self.noise, seed, size)
        if isinstance(engine, LocalEngine):
            engine.measures = self.measures
        return engine, first.shape

    def _settings(
        self, n: int, n0: int, alpha: float, claims: Sequence[str] | None, sides: str, method: Method
    ) -> Settings:
        return Settings(n, n0, alpha, claims, sides, method, measures=[each.info for each in self.measures])

    def _support_of(self, measure: str) -> tuple[float, float]:
        for known in self.measures:
            if measure == known.name:
                return known.support
        raise InvalidArgument(
            f"measure must be one of {', '.join(each.name for each in self.measures)}, got {measure!r}"
        )

    def _probe(self, xs: InputSource) -> Tensor:
        """Refuse bad inputs and bad models before any time is spent on them; returns the first input.

        The model is asked once, and again when anything but its weights, or the inputs' shape, has changed.
        """
        if len(xs) == 0:
            raise InvalidInput("there is nothing to certify: no inputs were given")
        first = self._checked(xs, 0, None)
        if isinstance(xs, Tensor | np.ndarray):
            for position in range(1, len(xs)):
                self._checked(xs, position, first.shape)
        asked = (first.shape, self._model.look())
        if asked != self._asked or asked[1] is None:
            generator = torch.Generator().manual_seed(0)
            noise = torch.randn(2 * SMALLEST_BATCH, *first.shape, generator=generator)
            rows = (first + self.sigma * noise).to(self._model.device)
            self._model.refresh()
            check_model(self._model, rows)
            self._operations = self._model.operations(rows)
            self._asked = asked
        return first

    def _checked(self, xs: InputSource, position: int, shape: torch.Size | None) -> Tensor:
        try:
            item = xs[position]
        except TypeError as error:
            raise InvalidInput(
                f"inputs must be a tensor, an array, a list or a dataset that can be indexed, got {type(xs).__name__}; "
                f"give a DataLoader's dataset instead"
            ) from error
        checked = as_input(
            item[0] if isinstance(item, tuple) else item, self._kind, self.sigma, what=f"input {position}"
        )
        if shape is not None and checked.shape != shape:
            raise InvalidInput(
                f"input {position} has shape {tuple(checked.shape)}, but input 0 has {tuple(shape)}; they must agree"
            )
        return checked


def _check_batch_of_inputs(xs: InputSource) -> None:
    if not hasattr(xs, "__len__") or not hasattr(xs, "__getitem__") or isinstance(xs, Mapping):
        raise InvalidInput(
            f"inputs must be a tensor, an array, a list or a dataset that can be indexed, got {type(xs).__name__}; "
            f"give a DataLoader's dataset instead"
        )
    if isinstance(xs, Tensor | np.ndarray) and xs.ndim < 2:
        raise InvalidInput(
            f"expected a batch with a first dimension of inputs, got shape {tuple(xs.shape)}; for one input use certify(x)"
        )


def _check_compute(engine: Compute | None) -> Compute:
    if engine is not None and not isinstance(engine, Compute):
        raise InvalidArgument(f"engine must be Local() or RayCluster(workers=...), got {engine!r}")
    return Local() if engine is None else engine
