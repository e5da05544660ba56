"""The report of an evaluation: one page that holds everything it shows, for the screen, the telephone and paper.

The page asks for nothing outside itself: no script, no font, no picture that is not in it. The same evaluation gives
the same page, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from .. import __version__
from ..evaluation import WORST, ClassLine, Evaluation, Trade
from .evaluation_figures import MOST_CLASSES, PANELS, panel_figure, panels_of
from .evaluation_text import between_text, percent, score_text, sentences, value_text
from .inline_svg import inline_svg

__all__ = ["render_evaluation"]

#: Classes in a table of the page; evaluation.json has all.
MOST_LINES = 200
_TILES = ("accuracy", "recognition_accuracy", "rejection_accuracy", "f", "auroc", "oscr")
_CAPTIONS = {
    "scores": (
        "Unknown scores of known and of unknown samples, in per cent of each. Right of the dashed line a sample is "
        "refused. The less the two overlap, the better a threshold can part them."
    ),
    "oscr": (
        "OSCR curve: the share of known samples that are accepted under their class, against the share of unknown "
        "samples accepted, over all thresholds. It ends at the closed-set accuracy."
    ),
    "trade": (
        "What a threshold trades: refusing more of the unknown samples costs known ones. The dots are the thresholds "
        "of the table below, with their values."
    ),
    "confusion": "Rows are labels, columns answers; the last row has all unknown labels, the last column the refusals.",
}  # fmt: skip
_WIDE = ("scores", "confusion")


@dataclass(frozen=True)
class Drawing:
    """A figure in the page: its id, the ``<svg>``, what is written below, and inches of width."""

    name: str
    svg: str
    caption: str
    width: float
    wide: bool


def render_evaluation(
    found: Evaluation, *, title: str, facts: Sequence[tuple[str, str]], notes: Sequence[str] = ()
) -> bytes:
    """The page.

    Parameters
    ----------
    found : Evaluation
    title : str
    facts : sequence of (name, text)
        About model and data.
    notes : sequence of str
        What the reader must know.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    measures = found.measures.values()
    page: dict[str, Any] = {
        "title": title,
        "version": __version__,
        "facts": list(facts),
        "notes": list(notes),
        "sentences": sentences(found),
        "tiles": [
            {"label": m.kind.label, "value": value_text(m), "between": between_text(m)}
            for m in measures
            if m.name in _TILES and m.value is not None
        ],
        "metrics": [
            {
                "label": m.kind.label,
                "value": value_text(m),
                "between": between_text(m),
                "meaning": m.kind.meaning + (f" ({m.remark})" if m.remark else ""),
                "missing": m.value is None,
            }
            for m in measures
        ],
        "good": "Of the FPR small is good, of the others large; recognition and rejection are traded for each other.",
        "drawings": _drawings(found),
        "missing": "" if set(panels_of(found)) == set(PANELS) else _why_missing(found),
        "trades": [_trade(trade) for trade in (found.now, *found.trades)] if found.trades else [],
        "tables": _tables(found),
        "worst": _worst(found),
        "named": found.files is not None,
    }
    env = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    # The one thing that is not escaped, for it is made here and escapes what it holds.
    env.filters["as_svg"] = Markup
    text = resources.files(__package__).joinpath("evaluation_page.html.j2").read_text("utf-8")
    return env.from_string(text).render(page).encode("utf-8", "backslashreplace")


def _drawings(found: Evaluation) -> list[Drawing]:
    drawings = []
    for name, panel in panels_of(found).items():
        caption = _CAPTIONS[name]
        if name == "scores" and found.thresholds is not None and found.threshold is None:
            caption += (
                " Every class has a threshold of its own: between the dashed lines the candidate decides which holds."
            )
        if name == "confusion" and len(found.names) > MOST_CLASSES:
            caption += (
                f" Of {len(found.names):,} classes the {MOST_CLASSES} with the most mistakes are shown; answers that "
                "name another are left out."
            )
        with panel_figure(found, name) as figure:
            svg = inline_svg(figure, f"figure-{name}", f"{panel.heading}. {caption}")
        drawings.append(Drawing(name, svg, caption, panel.size(found)[0], name in _WIDE))
    return drawings


def _why_missing(found: Evaluation) -> str:
    which = "unknown" if found.n_known else "known"
    return f"The OSCR curve and what a threshold trades are not drawn: there are no {which} samples."


def _trade(trade: Trade) -> dict[str, Any]:
    return {
        "here": trade.target is None,
        "target": "the model's own" if trade.target is None else f"{100 * trade.target:g} %",
        "threshold": "by class" if trade.target is None and trade.threshold is None else score_text(trade.threshold),
        "known_refused": percent(trade.known_refused),
        "recognised": percent(trade.recognised),
        "unknown_refused": percent(trade.unknown_refused),
    }


def _tables(found: Evaluation) -> list[dict[str, Any]]:
    """Known classes, those with the most mistakes first; then unknown labels."""
    tables = []
    for known, heading, order in (
        (True, "Known classes", "The classes with the most mistakes first."),
        (False, "Unknown labels", "The labels that were accepted most often first."),
    ):
        lines = [line for line in found.lines if line.known is known and line.samples]
        lines.sort(key=lambda line: (line.right - line.samples, line.label))
        if lines:
            more = f" {len(lines) - MOST_LINES:,} more are in evaluation.json." if len(lines) > MOST_LINES else ""
            tables.append(
                {
                    "heading": heading,
                    "known": known,
                    "caption": order + more,
                    "rows": [_row(line) for line in lines[:MOST_LINES]],
                }
            )
    return tables


def _row(line: ClassLine) -> dict[str, Any]:
    counts = {name: f"{getattr(line, name):,}" for name in ("samples", "right", "refused", "wrong")}
    share = f"{100 * line.right / line.samples:.1f}"
    return {"label": line.label, "share": share, "mistaken": line.mistaken, "mistaken_for": line.mistaken_for, **counts}


def _worst(found: Evaluation) -> list[dict[str, Any]]:
    about = {
        "accepted": ("Strangers let in", "Accepted unknown samples with the lowest scores", "taken for"),
        "refused": ("Known samples refused", "Refused known samples with the highest scores", "candidate"),
        "mistaken": (
            "Known samples mistaken",
            "Known samples accepted under another class, lowest scores",
            "taken for",
        ),
    }
    there = {"accepted": found.n_unknown, "refused": found.n_known, "mistaken": found.n_known}
    return [
        {
            "heading": heading,
            "caption": f"{caption}, at most {WORST}.",
            "candidate": candidate,
            "rows": [vars(one) | {"score": score_text(one.unknown_score)} for one in found.worst[name]],
        }
        for name, (heading, caption, candidate) in about.items()
        if there[name]
    ]
