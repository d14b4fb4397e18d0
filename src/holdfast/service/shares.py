"""What callers share: places, bytes and threads, so that nobody's many requests keep out another's one."""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, final
from weakref import WeakValueDictionary

T = TypeVar("T")


@final
class FairShare:
    """A capacity of which each caller may hold as much as is free.

    So a caller alone has at most half of it, and whoever comes next finds room.

    **Source**: Choudhury and Hahne, *Dynamic queue length thresholds for shared-memory packet switches* (1998), factor 1.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._held: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        """What all callers hold."""
        return self._held.total()

    def take(self, caller: str, amount: int) -> bool:
        """Hold so much more, if there is room for it."""
        if self._held[caller] + amount > self.capacity - self.taken:
            return False
        self._held[caller] += amount
        return True

    def give(self, caller: str, amount: int) -> None:
        """Hold so much less."""
        self._held[caller] -= amount
        self._held = +self._held  # callers who hold nothing are forgotten


@final
class FairPool:
    """Threads that do one thing at a time for each caller, so that nobody waits for all that another wants."""

    def __init__(self, threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, name)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, caller: str, work: Callable[[], T]) -> T:
        """Work in a thread; never begun if nobody waits for it any more. The caller's turn lasts as long as the thread works."""
        turn, loop = self._turns.setdefault(caller, asyncio.Lock()), asyncio.get_running_loop()
        await turn.acquire()
        begun = self._pool.submit(work)
        begun.add_done_callback(lambda _: loop.call_soon_threadsafe(turn.release))
        return await asyncio.wrap_future(begun)

    def close(self) -> None:
        """Finish what has begun."""
        self._pool.shutdown(cancel_futures=True)
