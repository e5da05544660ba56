"""``srosr demo``: known and unknown digits, with a table and a figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..operations.input_errors import InputError, name_errors
from .console import seed_option
from .output_paths import check_figure_path, make_write_error

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..experiments.digits_demo import DemoResult

_RULES = {"calibrated": "calibrated", "paper": "paper's, same codes", "SCI": "SCI alone"}
_CAPTION = "thresholds set to reject {0.target_rejection:.0%} of known samples; no unknown sample was used"


@click.command()
@click.option(
    "--known",
    metavar="DIGITS",
    help="Comma-separated digits to learn; the others are unknown.  [six, chosen by the seed]",
)
@seed_option("Seed of the choice of known digits and of the split into training and test samples.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("srosr-demo.png"),
    show_default=True,
    help="Where to write the figure; the suffix (.png, .pdf or .svg) chooses the format.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON instead of the table.")
def demo(known: str | None, seed: int, out: Path, as_json: bool) -> None:
    """Learn six digits, test on all ten, reject the unknown ones.

    Fits SROSRClassifier to known digits of the set that comes with scikit-learn: every sample is coded over all
    training samples, the class with the smallest reconstruction error is its candidate, and a sample that is less like
    its candidate than known samples are is rejected. Score and threshold come from known digits only. The command
    prints a table, with the paper's rule and plain concentration of the code (SCI) for comparison, and writes a figure
    with scores, codes, errors, a tail, and the explanation of one rejected sample.

    \b
    Examples:
      srosr demo
      srosr demo --seed 7 --out digits.svg
      srosr demo --known 0,1,2,3,4,5
      srosr demo --json | python -m json.tool
    """
    digits = None if known is None else _parse_digits(known)
    check_figure_path(out)

    from rich.console import Console

    from ..experiments.digits_demo import choose_digits, run_demo
    from ..reports.demo_figure import plot_demo

    with name_errors(f"--known {known}"):
        choose_digits(seed, digits)

    with Console(stderr=True).status("Fitting and predicting digits (the first run also compiles the solver) …"):
        result = run_demo(seed, digits)
        try:
            plot_demo(result, out)
        except OSError as error:
            raise make_write_error("the figure", out, error.strerror or str(error), "--out") from None

    if as_json:
        click.echo(json.dumps(result.summary() | {"figure": str(out)}, indent=2))
    else:
        console = Console()
        for part in (_tabulate_digits(result), _tabulate_rules(result), _summarize(result)):
            console.print(part)
        console.print(f"Figure: {out}", highlight=False, soft_wrap=True, markup=False)


def _parse_digits(text: str) -> tuple[int, ...]:
    """Return the numbers in ``0,1,2``; the demo checks whether they can be used."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not (part.isascii() and part.isdigit()):
            raise InputError(f"--known {text}: {part!r} is not a digit; write digits separated by commas, as in 0,1,2.")
    return tuple(int(part) for part in parts)


def _tabulate_digits(result: DemoResult) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    def count(n: int, style: str) -> Text:
        return Text(str(n), style=style if n else "dim")

    title = f"Known digits: {', '.join(map(str, result.known))}"
    table = Table(title=title, title_style="bold", title_justify="left", header_style="bold")
    table.add_column("digit")
    for heading in ("samples", "recognized", "rejected", "wrong"):
        table.add_column(heading, justify="right")
    for tallies, name in ((result.known_tallies, "known"), (result.unknown_tallies, "unknown")):
        for tally in tallies:
            table.add_row(
                f"{tally.digit}  {name}",
                str(tally.samples),
                count(tally.right, "green") if name == "known" else Text("–", style="dim"),
                count(tally.rejected, "yellow" if name == "known" else "green"),
                count(tally.wrong, "red"),
            )
        sums = [str(sum(getattr(t, f) for t in tallies)) for f in ("samples", "right", "rejected", "wrong")]
        if name == "unknown":
            sums[1] = "–"
        table.add_row(f"all {name}", *sums, style="bold", end_section=True)
    return table


def _tabulate_rules(result: DemoResult) -> RenderableType:
    from rich.table import Table

    rules = Table(header_style="bold", caption=_CAPTION.format(result), caption_justify="left", caption_style="dim")
    for heading in ("rule", "known, correct", "unknown rejected", "AUROC", "F-measure"):
        rules.add_column(heading, justify="left" if heading == "rule" else "right")
    for rule in result.rules:
        shares = [f"{share:.1%}" for share in (rule.known_accepted_right, rule.unknown_rejected)]
        scores = [f"{score:.3f}" for score in (rule.auroc, rule.f_measure)]
        rules.add_row(_RULES[rule.name], *shares, *scores, style="bold" if rule is result.calibrated else "")
    return rules


def _summarize(result: DemoResult) -> RenderableType:
    from rich.table import Table

    summary = Table.grid(padding=(0, 2))
    summary.add_column()
    summary.add_column(justify="right", style="bold")
    summary.add_column(style="dim")
    for row in (
        ("closed-set accuracy", f"{result.closed_set_accuracy:.1%}", "of known samples, without rejection"),
        ("worst duality gap", f"{result.worst_gap:.1e}", f"over {result.n_test:,} codes, {result.problem}"),
        ("time to fit", f"{result.seconds_fit:.1f} s", f"{result.n_train} samples; the first run also compiles"),
        ("time to predict", f"{result.seconds_recognize:.1f} s", f"{result.n_test:,} samples"),
    ):
        summary.add_row(*row)
    return summary
