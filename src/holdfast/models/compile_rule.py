"""When compiling pays: a rule that knows seconds and counts, and neither torch nor the network."""

import math
from dataclasses import dataclass

_MEASURED = 0.1
"""Of the cost, as long is measured: the first batches of a process are slow."""


@dataclass
class CompileRule:
    """Sampling starts uncompiled. Compile as soon as what that is expected to save is more than what it costs.

    Where it is known how many inputs are left, it saves a share of the time that they would take. Where it is not, as much
    work is expected as was done so far: then compiling and waiting for it cost about twice the best choice, at most.

    Attributes:
        cost: seconds that compiling is expected to take; infinity: never compile.
        gain: how many times as fast the compiled network is expected to be.
        compiled: whether that was done: it is not taken back.
        before: seconds spent uncompiled in earlier calls.
        seconds, inputs: spent in this call, and on how many inputs.
    """

    cost: float = math.inf
    gain: float = 1.0
    compiled: bool = False
    before: float = 0.0
    seconds: float = 0.0
    inputs: int = 0

    def begin(self) -> None:
        """Another call: its inputs may take another time each."""
        self.before, self.seconds, self.inputs = self.before + self.seconds, 0.0, 0

    def learn(self, seconds: float) -> None:
        """One more input took so long."""
        self.seconds, self.inputs = self.seconds + seconds, self.inputs + 1

    def pays(self, left: int | None) -> bool:
        """Whether to run compiled from now on, with so many inputs left in this call; None if nobody knows."""
        if left is None:
            expected = self.before + self.seconds
        else:
            measured = self.inputs > 0 and self.seconds >= _MEASURED * self.cost
            known = self.seconds / self.inputs * left if measured else 0.0
            expected = max(self.before, known * (1 - 1 / self.gain))
        return self.compiled or expected > self.cost
