"""A smaller copy of a run: the same certificates with their scores counted on a coarser grid."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from holdfast.errors import InvalidArgument, RunError
from holdfast.progress import ignore
from holdfast.runs.calibration_checks import check_whole
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.folder import RunFolder
from holdfast.runs.manifest import SPOT_CHECK
from holdfast.runs.run import Run
from holdfast.runs.store import Entry, bytes_per_entry, write_part

COMPACT_BINS = 2_048


def compact_run(
    source: Run, out: Path, *, bins: int = COMPACT_BINS, say: Callable[[str], None] = ignore
) -> CertifiedRun:
    """Write ``source`` again with ``bins`` bins a histogram, to keep or to send; the source is left as it is.

    Guarantee:
        The copy's certificates are valid as they stand, for the same samples and the same alpha: votes and label radii are
        equal, and lower bounds are at most those of the source, upper bounds at least, unless the method bets on samples in order.
    """
    if not isinstance(source, CertifiedRun):
        raise InvalidArgument(
            f"{source.path} is an imported log, which holds no histograms; there is nothing to compact"
        )
    if len(source) == 0:
        raise InvalidArgument(f"{source.path} holds no finished certificates yet; there is nothing to compact")
    if source.config.get("status", "complete") == "running":
        raise RunError(
            f"{source.path} is not complete: it is being certified, or was killed; repeat the command it was begun with to finish it"
        )
    if source.config.get("status") == "complete":
        check_whole(source.path, source.config, len(source))
    finer = np.unique(source.columns(["bins"])["bins"]).tolist()
    config = {**source.config, "compacted": {"bins": bins, "from_bins": finer}}
    if RunFolder.holds_run(out) and RunFolder(out).config() == {**config, "sealed": True}:
        say(f"complete: {out} is this copy already")
        return CertifiedRun(RunFolder.open(out))
    RunFolder.refuse(out)
    RunFolder.check_place(out)
    entries = [
        Entry(
            entry.index,
            entry.label,
            replace(entry.certificate, evidence=entry.certificate.evidence.coarser(bins)),
        )
        for entry in source
    ]
    RunFolder.check_room(out, bytes_needed=bytes_per_entry(bins, len(source.counted)) * len(entries))
    with RunFolder.whole(out) as folder:
        write_part(folder, 0, entries)
        if source.spot_check is not None:
            folder.write(SPOT_CHECK, source.spot_check.write)
        folder.seal(config)
    return CertifiedRun(RunFolder(out))
