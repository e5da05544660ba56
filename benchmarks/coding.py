"""Speed and certificates of the coder against other solvers: ``python -m benchmarks.coding``."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.code_checks import Reference
from benchmarks.opponents import Opponent, load
from benchmarks.problems import SETS, Unavailable
from benchmarks.scaling import QUERIES_FOR_ATOMS, measure_scaling
from benchmarks.timing import FEWEST, Record, cases, measure, prime

RESULTS = Path(__file__).parent / "results" / "coding.json"
QUICK_QUERIES = 60
QUICK_BUDGET = 0.02
"""Factor on the opponents' own budgets in a quick run."""
QUICK_FEWEST = 1
NOT_QUICK = ("SPGL1 tight",)
"""Left out of quick runs unless asked for by name: seconds a sample."""


def _chosen(text: str | None, available: dict[str, str], option: str) -> list[str]:
    """Return the names in a comma-separated list, in the order of ``available`` (lower case: name)."""
    if text is None:
        return list(available.values())
    wanted = {part.strip().lower() for part in text.split(",") if part.strip()}
    unknown = wanted - set(available)
    if unknown or not wanted:
        names = ", ".join(available)
        raise click.BadParameter(f"{', '.join(sorted(unknown)) or 'nothing'} is not among: {names}", param_hint=option)
    return [name for key, name in available.items() if key in wanted]


def _opponents(text: str | None, quick: bool) -> tuple[list[Opponent], list[Record]]:
    """Return our solver and the chosen others that can run here, and the reasons why others cannot."""
    opponents = load()
    keys = {o.NAME.lower().replace(" ", "-"): o.NAME for o in opponents[1:]}
    names = _chosen(text, keys, "--opponents")
    fit, skipped = [opponents[0]], []
    for opponent in opponents[1:]:
        if opponent.NAME in names:
            reason = opponent.skip_reason()
            if reason is None and quick and text is None and opponent.NAME in NOT_QUICK:
                reason = "too slow for a quick run"
            if reason is None:
                fit.append(opponent)
            else:
                skipped.append({"solver": opponent.NAME, "reason": reason})
    return fit, skipped


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Few queries, one repeat: a look in under a minute.")
@click.option("--only", metavar="SETS", help=f"Comma-separated data sets: {', '.join(SETS)}.")
@click.option("--opponents", "names", metavar="SOLVERS", help="Comma-separated solvers; all by default.")
@click.option("--repeat", type=click.IntRange(1), help="Timed repeats, the shortest counts.  [3, quick: 1]")
@click.option(
    "--threads",
    type=click.Choice(["1", "2"]),
    default="2",
    show_default=True,
    help="2 also times ours and SPAMS with two threads.",
)
@click.option("--queries", type=click.IntRange(1), help="Queries of each set, instead of its own number.")
@click.option("--budget", type=click.FloatRange(0, min_open=True), help="Factor on the seconds slow solvers may take.")
@click.option("--scaling", is_flag=True, help="Also time ours over growing queries and dictionaries.")
@click.option(
    "--json",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=RESULTS,
    help="Where the records go.  [benchmarks/results/coding.json]",
)
def main(
    quick: bool,
    only: str | None,
    names: str | None,
    repeat: int | None,
    threads: str,
    queries: int | None,
    budget: float | None,
    scaling: bool,
    path: Path,
) -> None:
    """Compare srosr's coder with other solvers, one thread each and then two.

    Data sets are found under SROSR_DATA_DIR; those that are absent, and opponents that are not installed, are
    left out with a reason. ``benchmarks/code_checks.py`` computes objectives and duality gaps for all of them.
    """
    started = time.perf_counter()
    out, err = report.console(), Console(stderr=True)
    repeat = repeat or (1 if quick else 3)
    budget = budget or (QUICK_BUDGET if quick else 1.0)
    queries = queries or (QUICK_QUERIES if quick else None)
    opponents, skipped = _opponents(names, quick)
    for entry in skipped:
        out.print(f"skipped {entry['solver']}: {entry['reason']}")
    two_threads = threads == "2" and (os.cpu_count() or 1) > 1
    if threads == "2" and not two_threads:
        skipped.append({"solver": "all", "reason": "two threads: this machine has one core"})
        out.print(f"skipped {skipped[-1]['reason']}")

    prime(opponents)
    records: list[Record] = []
    for name in _chosen(only, {n: n for n in SETS}, "--only"):
        try:
            data = SETS[name]() if queries is None else SETS[name](n_queries=queries)
        except Unavailable as reason:
            skipped.append({"set": name, "reason": str(reason)})
            out.print(f"skipped {name}: {reason}")
            continue
        if quick:
            data = replace(data, tasks=tuple(t for t in data.tasks if t.quick))
        with threadpool_limits(1):
            reference = Reference(data.atoms)
        mine: list[Record] = []
        with err.status(name) as status:
            for case in cases(data, reference):
                status.update(f"{name}: {case.name}")
                rows, left_out = measure(
                    case,
                    opponents,
                    repeat=repeat,
                    budget=budget,
                    fewest=QUICK_FEWEST if quick else FEWEST,
                    two_threads=two_threads,
                )
                mine += rows
                skipped += left_out
        report.show(out, report.set_title(data, reference.rank), report.set_table(out, mine))
        records += mine
    out.print(report.LEGEND)

    lines = report.summarize(records, opponents[0].NAME, quick)
    report.show(out, "Targets (one thread unless said)", report.summary_table(out, lines))
    if quick:
        out.print("A quick run spreads the Gram matrix over too few queries to hold its times against the targets.")
    growth = _scaling(out, opponents[0], repeat, quick, skipped) if scaling else None
    content = {
        "environment": report.environment(opponents),
        "settings": {"quick": quick, "repeat": repeat, "budget": budget, "queries": queries},
        "solvers": {o.NAME: {"reference": o.REFERENCE, "license": o.LICENSE} for o in opponents},
        "records": records,
        "skipped": skipped,
        "targets": lines,
        "scaling": growth,
        "seconds": time.perf_counter() - started,
    }
    report.write_json(path, content)
    out.print(f"{len(records)} records in {path.name}, {content['seconds']:.0f} s")


def _scaling(out: Console, ours: Opponent, repeat: int, quick: bool, skipped: list[Record]) -> Record | None:
    """Measure and print growth; None, with a reason, where MNIST is absent."""
    divide = 10 if quick else 1
    try:
        times, fits = measure_scaling(ours, repeat, divide)
    except Unavailable as reason:
        skipped.append({"set": "scaling", "reason": str(reason)})
        out.print(f"skipped scaling: {reason}")
        return None
    title = f"Growth of our time on MNIST (1800 atoms; or {QUERIES_FOR_ATOMS // divide} queries), one thread"
    table = report.new_table(out, "problem", "grows", "size", "seconds")
    for r in times:
        table.add_row(r["problem"], r["grows"], str(r["size"]), f"{r['seconds']:.3g}")
    report.show(out, title, table)
    for fit in fits:
        target = " (target: at most 1)" if fit["grows"] == "queries" else ""
        out.print(f"{fit['problem']}: time grows with {fit['grows']} to the power {fit['exponent']:.2f}{target}")
    return {"times": times, "fits": fits}


if __name__ == "__main__":
    main()
