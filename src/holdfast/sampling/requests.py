"""Requests: what is asked about one input, as the spans of noise it wants and what it makes of their counts.

A request is a generator of steps. Each step asks for a few spans and gets their counts, whoever ran them; the last one
returns the result. Many requests can be open at once, so that batches stay full although each waits for its own counts.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, cast

from torch import Tensor

from holdfast.certificates.classes import ClassCounts
from holdfast.certificates.evidence import MOST_SELECTION, Evidence, Selection
from holdfast.errors import InvalidArgument
from holdfast.noise import Noise
from holdfast.sampling.span import Counting, Counts, NoiseSpan
from holdfast.sequential import AdaptiveRadius, Decision, SequentialTest
from holdfast.sequential.looks import Look
from holdfast.sequential.radius import RadiusSearch
from holdfast.validation import check_copies, check_count

T = TypeVar("T")
Step = Generator[Sequence[NoiseSpan], Sequence[Counts], T]


@dataclass(frozen=True)
class Sampled:
    """What sampling found out about one input: its class, chosen on ``n0`` copies, and the counts of others for it."""

    selection: Selection
    evidence: Evidence


@dataclass(eq=False)
class Request(ABC, Generic[T]):
    """A question about the input ``x``, whose noise ``seed`` and ``index`` key; ``result`` is there when it is finished.

    Attributes:
        n0, n: copies to choose a class by, and to count for it at most.
        shift: how far the input was from the point ``x`` that is sampled.
        position: the input's place among those that were given.
        caller: who asks; where requests share jobs, callers share them equally.
        seconds: how long its copies took.
        compiled: whether the model ran compiled.
        over: nothing more is to be sampled for it: it is finished, or whoever asked has left.
    """

    x: Tensor
    seed: int
    index: int
    n0: int
    n: int
    shift: float = field(default=0.0, kw_only=True)
    position: int = field(default=0, kw_only=True)
    caller: str = field(default="", kw_only=True)
    seconds: float = field(default=0.0, init=False)
    compiled: bool = field(default=False, init=False)
    over: bool = field(default=False, init=False)
    result: T | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_count("n0", self.n0, at_most=MOST_SELECTION)
        check_copies("n", self.n)

    @abstractmethod
    def steps(self) -> Step[T]:
        """The spans it wants, step by step; ends with the result."""

    def counted(self, counts: Counts) -> None:
        """Told of each part of a step's counts as it comes, for those who show progress."""

    def finish(self, result: T) -> None:
        """All steps are done."""
        self.result, self.over = result, True

    def fail(self, error: Exception) -> None:
        """Its copies could not be sampled."""
        raise error

    @property
    def keyed(self) -> dict[str, Any]:
        """What a certificate records of it."""
        return {name: getattr(self, name) for name in ("seed", "index", "seconds", "compiled", "shift")}

    @property
    def answer(self) -> T:
        """The result of a finished request."""
        assert self.result is not None
        return self.result

    def _selection(self, counting: Counting = Counting.SELECTION) -> NoiseSpan:
        return NoiseSpan(self.x, self.seed, self.index, counting, 0, self.n0)

    def _estimation(
        self, start: int, stop: int, target: int | NoiseSpan, counting: Counting = Counting.EVIDENCE
    ) -> NoiseSpan:
        return NoiseSpan(self.x, self.seed, self.index, counting, start, stop, target)

    def _choose(self, counting: Counting = Counting.SELECTION) -> Step[Selection]:
        (selection,) = yield (self._selection(counting),)
        return cast(Selection, selection)

    def _more(self, start: int, copies: int, target: int) -> Step[Evidence]:
        (evidence,) = yield (self._estimation(start, start + copies, target),)
        return cast(Evidence, evidence)

    def _settle(self, tests: Sequence[SequentialTest], measure: str, target: int) -> Step[None]:
        """Copies until every test is decided; tests of the same n_max want the same blocks, so they share them.

        The blocks are the tests' own: other ones would be another test, with another answer.
        """
        drawn = 0
        while undecided := [test for test in tests if test.decision is None]:
            block = yield from self._more(drawn, undecided[0].next_batch, target)
            for test in undecided:
                test.update(block[measure])
            drawn += block.n


@dataclass(eq=False)
class CertifyRequest(Request[Sampled]):
    """The paper's algorithm: choose the class on ``n0`` copies, count its scores on ``n`` others.

    The bounds are computed from the counts; the two kinds of copies never mix, so the choice costs no alpha.
    """

    def steps(self) -> Step[Sampled]:
        """Both spans at once: the second counts for the class that the first one chooses."""
        choosing = self._selection()
        selection, evidence = yield choosing, self._estimation(0, self.n, choosing)
        return Sampled(cast(Selection, selection), cast(Evidence, evidence))


@dataclass(eq=False)
class SelectionRequest(Request[Selection]):
    """Average scores of all classes over ``n0`` copies, or their votes; nothing is counted for the winner."""

    counting: Counting = Counting.SELECTION

    def steps(self) -> Step[Selection]:
        """One span."""
        return (yield from self._choose(self.counting))


@dataclass(eq=False)
class VotesRequest(Request[Sampled]):
    """Cohen et al.'s algorithm: the class with most votes among ``n0`` copies, and counts of ``n`` others for it."""

    def steps(self) -> Step[Sampled]:
        """First the class."""
        selection = yield from self._choose(Counting.VOTES)
        return Sampled(selection, (yield from self._more(0, self.n, selection.predicted)))


@dataclass(eq=False)
class RecountRequest(Request[Sampled]):
    """Counts for a class that was chosen before, and beside them what fresh copies would choose: to check a certificate."""

    target: int

    def steps(self) -> Step[Sampled]:
        """First the selection, which knows how many classes there are."""
        selection = yield from self._choose()
        if self.target >= len(selection.sums):
            raise InvalidArgument(
                f"the model has {len(selection.sums)} classes, and counts are asked for class {self.target}"
            )
        evidence = yield from self._more(0, self.n, self.target)
        return Sampled(selection, evidence)


@dataclass(eq=False)
class EstimateRequest(Request[Evidence]):
    """Counts of ``n`` copies for a class that is known already; none is chosen, and ``n0`` plays no role."""

    target: int

    def steps(self) -> Step[Evidence]:
        """One span."""
        return (yield from self._more(0, self.n, self.target))


@dataclass(eq=False)
class LooksRequest(Request[Sampled]):
    """A certificate that may be read at planned looks; ``looked`` keeps the counts as they stood at each."""

    looks: Sequence[Look]
    looked: list[Sampled] = field(default_factory=list, init=False)

    def steps(self) -> Step[Sampled]:
        """One look after the other; each contains the earlier ones."""
        selection = yield from self._choose()
        seen = yield from self._more(0, self.looks[0].n, selection.predicted)
        self.looked.append(Sampled(selection, seen))
        for look in self.looks[1:]:
            seen += yield from self._more(seen.n, look.n - seen.n, selection.predicted)
            self.looked.append(Sampled(selection, seen))
        return self.looked[-1]


@dataclass(eq=False)
class DecideRequest(Request[Decision]):
    """Early stopping: as many copies as one question takes."""

    test: SequentialTest
    measure: str

    def steps(self) -> Step[Decision]:
        """Choose the class, then test."""
        selection = yield from self._choose()
        self.test.subject = f"the average {self.measure} of class {selection.predicted}"
        yield from self._settle((self.test,), self.measure, selection.predicted)
        assert self.test.decision is not None
        return replace(self.test.decision, predicted=selection.predicted, seed=self.seed)


@dataclass(eq=False)
class ClaimsRequest(Request[tuple[int, tuple[Decision, ...]]]):
    """Early stopping for several claims about one class, which was chosen before: does it still hold what they say?

    Each claim has a test of its own, with all of its alpha; all tests have the same n_max, and see the same copies.
    """

    tests: Sequence[SequentialTest]
    measure: str
    target: int

    def steps(self) -> Step[tuple[int, tuple[Decision, ...]]]:
        """The class that is predicted, and a decision for each claim; none if that is another class."""
        selection = yield from self._choose()
        if selection.predicted != self.target:
            return selection.predicted, ()
        yield from self._settle(self.tests, self.measure, self.target)
        return selection.predicted, tuple(test.decision for test in self.tests if test.decision is not None)


@dataclass(eq=False)
class RadiusRequest(Request[AdaptiveRadius]):
    """Planned looks at ever more copies, until the certified radius is near the best possible."""

    search: RadiusSearch
    measure: str
    seen: Noise

    def steps(self) -> Step[AdaptiveRadius]:
        """Each look contains the earlier ones."""
        selection = yield from self._choose()
        counted = yield from self._more(0, self.search.next_batch, selection.predicted)
        self.search.update(counted[self.measure].under(self.seen))
        while self.search.next_batch:
            counted += yield from self._more(counted.n, self.search.next_batch, selection.predicted)
            self.search.update(counted[self.measure].under(self.seen))
        assert self.search.result is not None
        return replace(self.search.result, predicted=selection.predicted, seed=self.seed)


@dataclass(eq=False)
class ClassesRequest(Request[tuple[int, ClassCounts]]):
    """The class, and the counts of all classes beside it."""

    def steps(self) -> Step[tuple[int, ClassCounts]]:
        """Counts of n fresh copies."""
        selection = yield from self._choose()
        (counts,) = yield (self._estimation(0, self.n, selection.predicted, Counting.CLASSES),)
        return selection.predicted, cast(ClassCounts, counts)


AnyRequest = Request[Any]
