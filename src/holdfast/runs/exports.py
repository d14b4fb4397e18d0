"""A run as the logs that other people's scripts read."""

import numpy as np

from holdfast.certificate import Certificate
from holdfast.errors import InvalidArgument
from holdfast.runs.certified import BASELINE, CertifiedRun
from holdfast.runs.imported import ImportedRun
from holdfast.runs.run import Run
from holdfast.runs.store import Entry
from holdfast.runs.tsv import COHEN_COLUMNS, PAPER_COLUMNS, PAPER_RADII, Log, LogRow


def export_log(run: Run, measure: str) -> Log:
    """Cohen et al.'s log for ``label``; the paper's for ``score`` and ``margin``."""
    if measure not in run.measures:
        raise InvalidArgument(f"{run.path} has no {measure!r} to export; it has: {', '.join(run.measures)}")
    if len(run) == 0:
        raise InvalidArgument(f"{run.path} holds no finished certificates yet; there is nothing to export")
    if isinstance(run, ImportedRun):
        return run.log
    assert isinstance(run, CertifiedRun)
    if measure == "label":
        return Log(COHEN_COLUMNS, [_label_row(entry) for entry in run])
    radii = np.array(PAPER_RADII)
    own = run.lower(measure, run.methods(measure)[0], radii)
    baseline = run.lower(measure, BASELINE, radii)
    return Log(
        PAPER_COLUMNS,
        [
            _row(entry, entry.certificate.abstained, (*ours.tolist(), *naive.tolist()))
            for entry, ours, naive in zip(run, own, baseline, strict=True)
        ],
    )


def _label_row(entry: Entry) -> LogRow:
    label = entry.certificate.label
    return _row(entry, not label.certified, (label.radius,))


def _row(entry: Entry, abstained: bool, numbers: tuple[float, ...]) -> LogRow:
    certificate: Certificate = entry.certificate
    predicted = -1 if abstained else certificate.predicted
    return LogRow(
        entry.index, entry.label, predicted, numbers, predicted == entry.label, certificate.provenance.seconds
    )
