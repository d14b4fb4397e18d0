"""Pictures of a report: from the data of its runs, where they are available."""

from collections.abc import Sequence

from holdfast.errors import DatasetError
from holdfast.report.thumbnails import Sheets, thumbnails
from holdfast.runs.run import Run
from holdfast.zoo.datasets.open import EMBEDDED, open_dataset


def pictures_of(runs: Sequence[Run], names: Sequence[str]) -> dict[int, Sheets]:
    """Pictures of the runs' inputs, by the position of the run: from the data named, and from the embedded data.

    Each of the data named must be those of at least one run.
    """
    found: dict[int, Sheets] = {}
    for name in names:
        refusals = []
        for position, run in enumerate(runs):
            data = open_dataset(name, split=str(run.config.get("split", "test")))
            try:
                found[position] = thumbnails(run, data)
            except DatasetError as refusal:
                refusals.append(refusal)
        if len(refusals) == len(runs):
            raise refusals[0]
    for position, run in enumerate(runs):
        if position not in found and run.config.get("data") == EMBEDDED and run.config["kind"] == "certified":
            embedded = _embedded(run)
            found.update({} if embedded is None else {position: embedded})
    return found


def _embedded(run: Run) -> Sheets | None:
    """A folder of one's own may have the embedded data's name."""
    try:
        return thumbnails(run, open_dataset(EMBEDDED))
    except DatasetError:
        return None
