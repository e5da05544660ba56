"""``srosr demo``: known and unknown digits, a table and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .bad_input import BadInput
from .console import LARGEST_SEED
from .output_files import check_figure_path, unwritable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..experiments import DemoResult

__all__ = ["demo"]

_RULES = {"calibrated": "calibrated", "paper": "paper's, same codes", "SCI": "SCI alone"}
_SAME_SHARE = "thresholds set to refuse {0.target_rejection:.0%} of known samples; no unknown had a part in them"


@click.command()
@click.option(
    "--known",
    metavar="DIGITS",
    help="The digits to learn, separated by commas; the others are strangers. [default: six, by the seed]",
)
@click.option(
    "--seed",
    type=click.IntRange(0, LARGEST_SEED),
    default=0,
    show_default=True,
    help="Chooses the known digits and splits them into training and test.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("srosr-demo.png"),
    show_default=True,
    help="Where the figure goes; the ending (.png, .pdf or .svg) chooses the format.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON instead of the table.")
def demo(known: str | None, seed: int, out: Path, as_json: bool) -> None:
    """Learn six digits, meet all ten, refuse the strangers.

    Fits SROSRClassifier to known digits of scikit-learn's bundled set: every sample is coded over all training samples,
    the class that leaves the smallest error is its candidate, and a sample that is stranger than known samples are is
    refused. Score and threshold come from known digits only. Prints a table, with the paper's rule and plain
    concentration of the code (SCI) to compare, and writes one figure: scores, codes, errors, a tail, and the
    explanation of one refusal.

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

    from ..experiments import choose_digits, run_demo
    from ..reports import plot_demo

    try:
        choose_digits(seed, digits)
    except ValueError as error:
        raise BadInput(f"--known {known}: {error}") from None

    with Console(stderr=True).status("Learning and meeting digits (the first run also compiles the solver) …"):
        result = run_demo(seed, digits)
        try:
            plot_demo(result, out)
        except OSError as error:
            raise unwritable("the figure", out, error.strerror or str(error), "--out") from None

    if as_json:
        import json

        click.echo(json.dumps(result.summary() | {"figure": str(out)}, indent=2))
    else:
        console = Console()
        for part in _render(result):
            console.print(part)
        console.print(f"Figure: {out}", highlight=False, soft_wrap=True, markup=False)


def _parse_digits(text: str) -> tuple[int, ...]:
    """Read ``0,1,2`` into numbers; whether they make sense is for the demo to say."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not (part.isascii() and part.isdigit()):
            raise BadInput(f"--known {text}: {part!r} is not a digit; write digits separated by commas, as in 0,1,2.")
    return tuple(int(part) for part in parts)


def _render(result: DemoResult) -> list[RenderableType]:
    """The demo's numbers as a table of classes, one of rules and a short summary, for the terminal."""
    from rich.table import Table
    from rich.text import Text

    def count(n: int, style: str) -> Text:
        return Text(str(n), style=style if n else "dim")

    known = ", ".join(map(str, result.known))
    table = Table(
        title=f"Known digits: {known}",
        title_style="bold",
        title_justify="left",
        header_style="bold",
    )
    table.add_column("digit")
    for heading in ("samples", "recognised", "refused", "wrong"):
        table.add_column(heading, justify="right")
    for tallies, name in ((result.known_tallies, "known"), (result.unknown_tallies, "unknown")):
        for tally in tallies:
            table.add_row(
                f"{tally.digit}  {name}",
                str(tally.samples),
                count(tally.right, "green") if name == "known" else Text("–", style="dim"),
                count(tally.refused, "yellow" if name == "known" else "green"),
                count(tally.wrong, "red"),
            )
        right, refused, wrong = (sum(getattr(t, f) for t in tallies) for f in ("right", "refused", "wrong"))
        table.add_row(
            f"all {name}",
            str(sum(t.samples for t in tallies)),
            str(right) if name == "known" else "–",
            str(refused),
            str(wrong),
            style="bold",
            end_section=True,
        )

    rules = Table(header_style="bold", caption=_SAME_SHARE.format(result), caption_justify="left", caption_style="dim")
    for heading in ("rule", "known, right", "unknown refused", "AUROC", "F-measure"):
        rules.add_column(heading, justify="left" if heading == "rule" else "right")
    for rule in result.rules:
        rules.add_row(
            _RULES[rule.name],
            f"{rule.known_accepted_right:.1%}",
            f"{rule.unknown_refused:.1%}",
            f"{rule.auroc:.3f}",
            f"{rule.f_measure:.3f}",
            style="bold" if rule is result.calibrated else "",
        )

    summary = Table.grid(padding=(0, 2))
    summary.add_column()
    summary.add_column(justify="right", style="bold")
    summary.add_column(style="dim")
    for row in (
        ("closed-set accuracy", f"{result.closed_set_accuracy:.1%}", "of known samples, nothing refused"),
        ("worst duality gap", f"{result.worst_gap:.1e}", f"over {result.n_test:,} codes, {result.problem}"),
        ("time to learn", f"{result.seconds_fit:.1f} s", f"{result.n_train} samples; with compiling, at the first run"),
        ("time to recognise", f"{result.seconds_recognise:.1f} s", f"{result.n_test:,} samples"),
    ):
        summary.add_row(*row)
    return [table, rules, summary]
