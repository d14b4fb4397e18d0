"""The smoothed classifier: from a model and an input to a certificate, in one call."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from holdfast.bounds import DEFAULT_METHOD, Method
from holdfast.certificates import Certificate, ClassCertificate, Settings
from holdfast.errors import InvalidArgument
from holdfast.inputs import CheckedInputs, GridInput, Input, InputSource, check_kind, check_step, grid_input
from holdfast.measures import Measure, all_measures, support_of
from holdfast.models import Model, as_model
from holdfast.models.fast.precision import check_native
from holdfast.models.spot_check import check_calibrated
from holdfast.noise import Noise, as_noise, check_seed, sampled_noise, sigma_of
from holdfast.noisy import NoisyModel
from holdfast.progress import ignore, progress_bar
from holdfast.sampling import CertifyRequest, ClassesRequest, DecideRequest, Engine, RadiusRequest, as_engine
from holdfast.sampling.batch_size import check_batch
from holdfast.sequential import AdaptiveRadius, Decision, RadiusSearch, SequentialTest
from holdfast.triage import Triage, Verdict
from holdfast.validation import check_threshold


class SmoothedClassifier(NoisyModel):
    """A classifier averaged over noise, and its certificates.

    Parameters:
        net: a torch module from batches to class scores (TorchScript, a ``torch.export`` program and the models of transformers and
            timm included), an ONNX file or session, an estimator of scikit-learn, a function of NumPy batches, or a :class:`Model`.
        sigma: standard deviation of Gaussian noise, in the units of the input (pixels in [0, 1] for images).
        noise: another noise, instead of ``sigma``, such as ``Uniform(0.5)`` for l1 perturbations.
        measures: what is measured beside the prediction score and the margin, such as ``Mass({3, 5})``.
        outputs: what the model returns, ``"logits"`` or ``"probabilities"``; it is checked.
        step: the grid that the classifier rounds its input to; by default 1/255 for images of bytes, else a power of two
            far below the noise's scale. 0 is the float32 noise of Holdfast 0.1.0, which a hostile network can see through.
        inputs: ``"images"`` refuses values far outside [0, 1], ``"any"`` does not; ``"auto"`` looks at the shape.
        device: where to run; by default where the module's parameters are. ``"cuda"`` uses all visible GPUs.
        batch: rows of a forward pass; found automatically if not given, and halved if memory runs out.
        precision: ``"float32"``, ``"bfloat16"`` or ``"float16"``; on a GPU also ``"tf32"``, ``"tf32-convolutions"`` and
            ``"tf32-products"``. By default as torch itself would run the module there: float32, on a GPU
            ``"tf32-convolutions"``. The certificate is about the network at it, and records it.
        compile: compile the module before sampling, or never; by default once the work that lies ahead outweighs compiling.
        engine: runs the noisy copies: ``Local()``, or ``RayCluster(...)``. The certificates are the same.

    A module's structure is fixed here; weights that are changed in place later count at the next call.
    """

    def __init__(
        self,
        net: nn.Module | Model | Callable[[Any], Any] | object,
        sigma: float | None = None,
        *,
        noise: Noise | None = None,
        measures: Sequence[Measure] = (),
        step: float | None = None,
        outputs: str = "logits",
        inputs: str = "auto",
        device: str | torch.device | None = None,
        batch: int | None = None,
        precision: str | None = None,
        compile: bool | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.noise = as_noise(noise, sigma)
        self.step = check_step(step)
        self.measures = all_measures(measures)
        self.inputs = check_kind(inputs)
        self.compile = compile
        self.model = as_model(net, outputs=outputs, device=device, precision=precision, compiled=compile)
        if not isinstance(net, Model):
            check_native(self.model.precision, self.model.device)
        self.engine = as_engine(engine)
        self.batch = check_batch(batch)

    def __repr__(self) -> str:
        return f"SmoothedClassifier({self.model.name}, {self.noise}, device={str(self.model.device)!r})"

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, if it is Gaussian."""
        return sigma_of(self.noise)

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
        aim: float | None = None,
        seed: int | None = None,
        index: int = 0,
        batch: int | None = None,
        progress: bool | None = None,
    ) -> Certificate:
        """Certify one input (without a batch dimension).

        Guarantee:
            The certificate's: everything on it holds with probability at least ``1 - alpha``.

        Parameters:
            n, n0, alpha, claims, sides, method: see :class:`Settings`.
            aim: a radius named beforehand, for a tighter bound there: the best of ``method`` and ``Tangent(aim)``, for half of alpha each.
            seed, index: key the noise, for a replay; the seed is secret by default, and recorded.
            batch, progress: in place of the classifier's batch size; a bar, by default in a terminal and in a notebook.
        """
        asked = Settings(n, n0, alpha, claims, sides, method, aim)
        return next(self.stream([x], [index], asked, seed=seed, batch=batch, progress=progress))

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
        aim: float | None = None,
        seed: int | None = None,
        batch: int | None = None,
        progress: bool | None = None,
    ) -> list[Certificate]:
        """Certify each input of a batch, or of a dataset of inputs or (input, label) pairs.

        ``alpha`` is each certificate's own; nothing is claimed about all of them at once. Input number i gets the noise
        keyed by i, so the first of many has the certificate it would have alone with the same seed.
        """
        settings = Settings(n, n0, alpha, claims, sides, method, aim)
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
        step: float | None = None,
    ) -> Iterator[Certificate]:
        """Certificates as they are finished; ``indices`` key their noise. Do not change the model until the last has come.

        ``step`` is in place of the classifier's.
        """
        asked = settings.resolved([measure.info for measure in self.measures], self.noise)
        inputs = CheckedInputs(xs, self.inputs, self.noise, self.step if step is None else step)
        known_seed = check_seed(seed)

        def make(_: int, index: int, at: GridInput) -> CertifyRequest:
            return CertifyRequest(at.x, known_seed, index, asked.n0, asked.n, shift=at.shift)

        self.model.expect(copies := len(inputs) * (asked.n0 + asked.n))
        with progress_bar("certifying", copies, show=progress) as on_copies:
            for request, grid in self.about(inputs, indices, make, batch, on_copies, say=on_copies.say):
                made = self.provenance(grid, **request.keyed)
                yield asked.certificate(request.answer.selection, request.answer.evidence, made)

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
            The decision's, although the number of noisy copies was chosen by looking at them.
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

        ``alpha`` is each decision's own. ``on_decision`` is told an input's position and its decision as soon as it is made.
        """
        question = {"at_least": at_least, "radius": radius, "alpha": alpha, "n_max": n_max}
        test = partial(SequentialTest, **question, support=support_of(measure, self.measures))  # type: ignore[arg-type]
        test(noise=self.noise)  # refused before any input is read
        known_seed, inputs = check_seed(seed), CheckedInputs(xs, self.inputs, self.noise, self.step)

        def make(k: int, index: int, at: GridInput) -> DecideRequest:
            about = test(noise=sampled_noise(self.noise, at.step, at.shift))
            return DecideRequest(at.x, known_seed, index, n0, n_max, about, measure, position=k)

        found: dict[int, Decision] = {}
        self.model.expect(len(inputs) * (n0 + n_max))
        with progress_bar("deciding", len(inputs), unit="inputs", show=progress) as on_decided:
            for request, _ in self.about(inputs, indices, make, batch, in_order=False, say=on_decided.say):
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
            The result's, although the number of noisy copies was chosen by looking at them.
        """
        check_threshold(at_least, support_of(measure, self.measures))
        search = RadiusSearch(at_least=at_least, within=within, alpha=alpha, n_max=n_max)
        at, known_seed, key = self.at(x, seed, index)
        seen = sampled_noise(self.noise, at.step, at.shift)
        self.model.expect(n0 + n_max)
        request = RadiusRequest(at.x, known_seed, key, n0, n_max, search, measure, seen)
        return next(self.run_requests([request], at.step, batch)).answer  # type: ignore[no-any-return]

    def triage(
        self, x: Input, triage: Triage, *, seed: int | None = None, index: int = 0, batch: int | None = None
    ) -> Verdict:
        """Accept a class for this input, or hand it to a human: the deployment side of ``triage``.

        Guarantee:
            The triage's, for every input within its radius of one drawn like the calibration inputs, once it is rounded to the
            classifier's grid. An image with pixels beyond the range of images is moved to its edge, not refused.
        Requires:
            The same ``inputs=``, ``outputs=`` and network as at calibration (compared, as far as the triage knows it),
            and a seed that whoever chose the input does not know.
        """
        if not isinstance(triage, Triage):
            raise InvalidArgument(
                f"triage must be a Triage, as choose_threshold(...) or Triage.from_dict(...) returns it, got {triage!r}"
            )
        triage.check_network(self.fingerprint)
        check_calibrated(self.model, triage.spot_check)
        step = triage.origin.step
        at = grid_input(x, self.inputs, self.noise, step, leeway=triage.radius)
        stream = self.stream([at.x], [index], triage.settings, seed=seed, batch=batch, progress=False, step=step)
        return triage.decide(next(stream))

    def certify_classes(
        self,
        x: Input,
        *,
        n: int = 100_000,
        n0: int = 100,
        alpha: float = 1e-3,
        claims: Sequence[str] | None = None,
        method: Method = DEFAULT_METHOD,
        seed: int | None = None,
        index: int = 0,
        batch: int | None = None,
        progress: bool | None = None,
    ) -> ClassCertificate:
        """Bounds for every class at once: "nothing within R makes *stop* less than 0.8 or *yield* more than 0.05".

        Guarantee:
            Everything on it, for all classes and both sides, holds with probability at least ``1 - alpha``.
        """
        chosen = ClassCertificate.check(claims, alpha, method, self.noise)
        ClassCertificate.check_n(n, chosen, alpha, method, self.noise)
        at, known_seed, key = self.at(x, seed, index)
        request = ClassesRequest(at.x, known_seed, key, n0, n, shift=at.shift)
        self.model.expect(n0 + n)
        with progress_bar("certifying", n0 + n, show=progress) as on_copies:
            predicted, counts = next(self.run_requests([request], at.step, batch, on_copies)).answer
        provenance = self.provenance(at.step, **request.keyed)
        return ClassCertificate(predicted, n0, alpha, chosen, method, counts, provenance)
