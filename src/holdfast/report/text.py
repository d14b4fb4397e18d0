"""The report for a terminal: tables of certified accuracy, rounded down, within 80 columns."""

from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.certificates.describe import in_norm
from holdfast.printable import printable
from holdfast.report.accuracy import AccuracyRow, Question, accuracy_rows, measures_of
from holdfast.runs.audit import Audit
from holdfast.runs.calibration_checks import why_fewer
from holdfast.runs.method_names import method_title
from holdfast.runs.run import Run
from holdfast.scores.rounding import ceil_decimals, floor_decimals, format_count, format_number


def accuracy_table(run: Run, question: Question, *, width: int) -> RenderableType:
    """Certified accuracy by radius, one line for each measure, threshold and method; in blocks that fit the width."""
    order = measures_of([run])
    rows = sorted(accuracy_rows(run, question), key=lambda row: (order.index(row.measure), row.threshold or 0.0))
    radii = question.radii_for(run)
    names = max(len(method_title(row.method)) for row in rows) + max(len(claim_title(row)) for row in rows) + 4
    column = max(5, *(len(format_number(radius)) for radius in radii)) + 2
    fit = max(1, (width - names) // column)
    blocks = [_block(rows, radii, range(first, min(first + fit, len(radii)))) for first in range(0, len(radii), fit)]
    notes = [
        f"Inputs (%) whose class is right (abstentions are not) and certified as stated within the radius{in_norm(run.noise, run.units)}."
    ]
    if run.config["kind"] == "imported" and "methods" in run.config:
        notes.append(
            "Bounds as the log has them, and what it says of them: it holds no counts, so nothing was checked."
        )
    elif run.radii is not None:
        notes.append(
            "Bounds as the log has them: it names neither band nor rounding. Its columns are called as in the paper, whose logs "
            "are DKW and Hoeffding, rounded to nearest; other people's may not be."
        )
    if not all(row.guaranteed for row in rows):
        notes.append("* an estimate for comparison, not a certificate")
    return Group(Text(headline(run), style="bold"), *blocks, *(Text(note, style="dim") for note in notes))


def _block(rows: Sequence[AccuracyRow], radii: Sequence[float], columns: range) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("certified", no_wrap=True)
    table.add_column("within radius", no_wrap=True)
    for column in columns:
        table.add_column(format_number(radii[column]), justify="right", no_wrap=True)
    claim = ""
    for row in rows:
        if claim and claim != claim_title(row):
            table.add_section()
        first = claim != claim_title(row)
        claim = claim_title(row)
        values = [percent(row.values[column]) for column in columns]
        table.add_row(claim if first else "", method_title(row.method), *values)
    return table


def print_report(runs: Sequence[Run], question: Question, console: Console) -> None:
    """All runs, one table each."""
    for run in runs:
        console.print(accuracy_table(run, question, width=console.width))
        console.print()
        if run.audit is not None:
            console.print(audit_table(run.audit))
            console.print()


def audit_table(audit: Audit) -> RenderableType:
    """The band between certificate and attack: averages over the audited inputs, by measure and radius."""
    notes, table = audit.notes, Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("average", no_wrap=True)
    for name in ("radius", "inputs", "clean", "certified", "attacked", "violations"):
        table.add_column(name, justify="right", no_wrap=True)
    measure = ""
    for row in audit.rows():
        if measure and measure != row.measure:
            table.add_section()
        first, measure = measure != row.measure, row.measure
        numbers = floor_decimals(row.certified, 3), ceil_decimals(row.attacked, 3)
        cells = format_number(row.radius), f"{row.inputs:,}", f"{row.clean:.3f}", *numbers, f"{row.violations:,}"
        table.add_row(measure if first else "", *cells)
    kind = "its gradients" if notes.gradients else "its scores alone"
    tested = f"{notes.inputs * len(notes.radii):,} attacked inputs, {notes.n:,} fresh noisy copies each"
    title = f"audit: {len(audit.violations)} violations; {tested}; the network attacked by {kind}"
    return Group(Text(title, style="bold"), table, Text(notes.by_chance, style="dim"))


def claim_title(row: AccuracyRow) -> str:
    """What a row certifies."""
    return "label" if row.threshold is None else f"{row.measure} > {format_number(row.threshold)}"


def percent(share: float) -> str:
    """A share of the inputs, rounded down."""
    # A share is a whole number of inputs over another: the tiny addition only undoes the product's own rounding.
    return floor_decimals(100 * share + 1e-9, 1)


def headline(run: Run) -> str:
    """What was run, in one line."""
    config = run.config
    said = [f"{run.path.name}: {format_count(len(run), 'input')}"]
    planned = config.get("inputs", len(run))
    if planned != len(run):
        said[0] += f" of {planned} ({why_fewer(config)})"
    if config.get("data"):
        said.append(str(config["data"]))
    if run.noise is not None:
        said.append(run.noise.title.replace(" = ", " "))
    if "n" in config:
        said.append(f"n {config['n']:,}")
    if "alpha" in config:
        said.append(f"alpha {format_number(config['alpha'])}")
    said.append(f"right {percent(float(run.correct.mean()))}%")
    return printable(", ".join(said))
