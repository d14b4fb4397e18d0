"""The result of verifying a run: what was checked, and what is wrong."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError


@dataclass(frozen=True)
class Check:
    """One thing that was checked, and the problems that were found, as sentences.

    Attributes:
        name: in one word, for programs.
        said: in words, for people.
        made: False where there was nothing to check it by.
    """

    name: str
    said: str
    problems: tuple[str, ...] = ()
    made: bool = True

    @classmethod
    def of(cls, name: str, said: str, find: Callable[[], Iterable[str]]) -> "Check":
        """What ``find`` finds. Whatever stops it is a problem, too: an edited file can make anything fail."""
        found: list[str] = []
        try:
            found.extend(find())
        except HoldfastError as error:
            found.append(str(error))
        except Exception as error:
            found.append(
                f"{name}: the files contradict each other so that nothing can be computed ({type(error).__name__}: {error})"
            )
        return cls(name, said, tuple(found))

    def __str__(self) -> str:
        if not self.made:
            return self.said
        return f"{self.said}: {'ok' if not self.problems else f'{len(self.problems)} wrong'}"


@dataclass(frozen=True)
class Verification:
    """What came of verifying the run at ``path``."""

    path: Path
    checks: tuple[Check, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """All that is wrong."""
        return tuple(problem for check in self.checks for problem in check.problems)

    @property
    def ok(self) -> bool:
        """Whether nothing is."""
        return not self.problems

    def also(self, *checks: Check) -> "Verification":
        """With further checks."""
        return Verification(self.path, (*self.checks, *checks))

    def __str__(self) -> str:
        return "\n".join((*map(str, self.checks), *(f"problem: {problem}" for problem in self.problems)))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        checks = [{**vars(check), "problems": list(check.problems)} for check in self.checks]
        return {"run": str(self.path), "ok": self.ok, "checks": checks}
