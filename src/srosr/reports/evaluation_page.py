"""The page of an evaluation: metrics, figures, thresholds, classes and the worst mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..evaluation.evaluation import WORST, ClassCounts, Evaluation, ThresholdEffect
from ..evaluation.metric_table import Measure
from .evaluation_figures import MOST_CLASSES, PANELS, choose_panels, draw_panel
from .evaluation_text import describe_results, format_interval, format_percent, format_score, format_value
from .html_page import Drawing, render_inline_svg, render_page

#: Rows in a table of classes; evaluation.json has all classes.
MOST_LINES = 200
_TILES = ("accuracy", "recognition_accuracy", "rejection_accuracy", "f", "auroc", "oscr")
_ABOUT = (
    "Every sample has a label. Samples of the model's classes are known and should be accepted as their class. All "
    "others are unknown and should be rejected."
)
_CAPTIONS = {
    "scores": (
        "Unknown scores of known and of unknown samples, in percent of each. Samples to the right of the dashed line "
        "are rejected. The less the two overlap, the better a threshold can separate them."
    ),
    "oscr": (
        "OSCR curve: the share of known samples that are accepted as their class, against the share of unknown "
        "samples that are accepted, over all thresholds. It ends at the closed-set accuracy."
    ),
    "trade": (
        "The trade-off between thresholds: rejecting more unknown samples also rejects more known ones. Dots mark the "
        "thresholds of the table below, with their values."
    ),
    "confusion": (
        "Rows are labels, columns answers. The last row holds all unknown labels, the last column the rejections."
    ),
}
_MISSING = "The OSCR curve and the trade-off between thresholds are not shown, because there are no {} samples."
_WIDE = ("scores", "confusion")


def render_evaluation(
    found: Evaluation, *, title: str, facts: Sequence[tuple[str, str]], notes: Sequence[str] = ()
) -> bytes:
    """Return the page of an evaluation, with facts about model and data, and notes that warn the reader."""
    metrics = {name: _format_measure(measure) for name, measure in found.measures.items()}
    lacking = "unknown" if found.n_known else "known"
    effects = [found.now, *found.threshold_effects] if found.threshold_effects else []
    page: dict[str, Any] = {
        "title": title,
        "about": [_ABOUT],
        "facts": list(facts),
        "notes": list(notes),
        "sentences": describe_results(found),
        "tiles": [row for name, row in metrics.items() if name in _TILES and not row["missing"]],
        "metrics": list(metrics.values()),
        "drawings": _draw_figures(found),
        "missing": "" if set(choose_panels(found)) == set(PANELS) else _MISSING.format(lacking),
        "effects": [_format_effect(one) for one in effects],
        "tables": _tabulate_classes(found),
        "worst": _tabulate_mistakes(found),
        "named": found.files is not None,
    }
    return render_page("evaluation_page.html.j2", page)


def _format_measure(measure: Measure) -> dict[str, Any]:
    return {
        "label": measure.kind.label,
        "value": format_value(measure),
        "interval": format_interval(measure),
        "meaning": measure.kind.meaning + (f" ({measure.remark})" if measure.remark else ""),
        "missing": measure.value is None,
    }


def _draw_figures(found: Evaluation) -> list[Drawing]:
    drawings = []
    for name, panel in choose_panels(found).items():
        caption = _CAPTIONS[name]
        if name == "scores" and found.thresholds is not None and found.threshold is None:
            caption += " Every class has its own threshold, which lies between the dashed lines."
        if name == "confusion" and len(found.names) > MOST_CLASSES:
            caption += (
                f" Of {len(found.names):,} classes, the {MOST_CLASSES} with the most mistakes are shown; answers that "
                "name other classes are left out."
            )
        with draw_panel(found, name) as figure:
            svg = render_inline_svg(figure, f"figure-{name}", f"{panel.heading}. {caption}")
        drawings.append(Drawing(name, svg, caption, panel.size(found)[0], name in _WIDE))
    return drawings


def _format_effect(effect: ThresholdEffect) -> dict[str, Any]:
    own = effect.target is None
    return {
        "here": own,
        "target": "the model's own" if effect.target is None else f"{100 * effect.target:g} %",
        "threshold": "per class" if own and effect.threshold is None else format_score(effect.threshold),
        "known_rejected": format_percent(effect.known_rejected),
        "recognized": format_percent(effect.recognized),
        "unknown_rejected": format_percent(effect.unknown_rejected),
    }


def _tabulate_classes(found: Evaluation) -> list[dict[str, Any]]:
    """Return the tables of the known classes and of the unknown labels."""
    tables = []
    for known, heading, order in (
        (True, "Known classes", "Classes with the most mistakes first."),
        (False, "Unknown labels", "Labels that were accepted most often first."),
    ):
        lines = [line for line in found.class_counts if line.known is known and line.samples]
        lines.sort(key=lambda line: (line.right - line.samples, line.label))
        if lines:
            more = f" {len(lines) - MOST_LINES:,} more are in evaluation.json." if len(lines) > MOST_LINES else ""
            rows = [_format_counts(line) for line in lines[:MOST_LINES]]
            tables.append({"heading": heading, "known": known, "caption": order + more, "rows": rows})
    return tables


def _format_counts(line: ClassCounts) -> dict[str, Any]:
    counts = {name: f"{getattr(line, name):,}" for name in ("samples", "right", "rejected", "wrong")}
    share = f"{100 * line.right / line.samples:.1f}"
    return {"label": line.label, "share": share, "mistaken": line.mistaken, "mistaken_for": line.mistaken_for, **counts}


def _tabulate_mistakes(found: Evaluation) -> list[dict[str, Any]]:
    about = {
        "accepted": ("Unknown samples accepted", "Accepted unknown samples with the lowest scores", "accepted as"),
        "rejected": ("Known samples rejected", "Rejected known samples with the highest scores", "candidate"),
        "mistaken": (
            "Known samples mistaken",
            "Known samples accepted as another class, with the lowest scores",
            "accepted as",
        ),
    }
    there = {"accepted": found.n_unknown, "rejected": found.n_known, "mistaken": found.n_known}
    return [
        {
            "heading": heading,
            "caption": f"{caption}, at most {WORST}.",
            "candidate": candidate,
            "rows": [vars(one) | {"score": format_score(one.unknown_score)} for one in found.worst[name]],
        }
        for name, (heading, caption, candidate) in about.items()
        if there[name]
    ]
