"""The words of an explanation: a sentence a fact, for readers who know neither codes nor tails."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .._support.messages import join_names

if TYPE_CHECKING:
    from .explanation import Explanation, WeighedEvidence

__all__ = ["NAMES", "PHRASES", "apart", "explained"]

#: Short names of the evidence, for the axis of a figure.
NAMES = {
    "matched": "error of its class",
    "nonmatched": "errors of other classes",
    "concentration": "concentration of the code",
    "ratio": "best to second class",
    "surplus": "help from other classes",
    "collaborative": "collaborative score",
    "margin": "collaborative lead",
    "subspace": "nearest to second subspace",
}
#: What it means for evidence to speak for a stranger.
PHRASES = {
    "matched": "large error of its class",
    "nonmatched": "small errors of other classes",
    "concentration": "code spread over classes",
    "ratio": "second class nearly as good",
    "surplus": "help from other classes",
    "collaborative": "low collaborative score",
    "margin": "small collaborative lead",
    "subspace": "second subspace nearly as near",
}
# Atoms named in the text.
_NAMED = 3


def explained(e: Explanation) -> str:
    """All that is to be said of a verdict, a paragraph a line: the verdict, the class, the code, the reasons."""
    if e.length == 0:
        return "Refused: the sample has length zero, so that there is nothing in it to recognise."
    return "\n".join(" ".join(part) for part in (_verdict(e), _closeness(e), _code(e), _reasons(e)) if part)


def _verdict(e: Explanation) -> list[str]:
    score, threshold = apart(e.unknown_score, e.threshold)
    if e.refused:
        out = [f"Refused: the unknown score {score} is above the threshold {threshold}."]
    else:
        out = [f"Recognised as class {e.candidate}: the unknown score {score} is not above the threshold {threshold}."]
    if e.is_p_value:
        out.append(f"{_percent_of(e.p_value)} of known samples look at least as strange.")
    elif e.rule == "calibrated":
        out.append(
            "The score is the share of pretended strangers (known classes left out in turn) that look less strange: "
            "no known sample could be held out to compare with."
        )
    return [*out, f"(Threshold: {e.threshold_detail}.)"]


def _closeness(e: Explanation) -> list[str]:
    if not e.atoms:
        return [
            f"No training sample helps to rebuild it: the code is zero, all classes are equally far, and class "
            f"{e.candidate} is named only because it comes first."
        ]
    best, second = e.residuals[e.candidate] / e.length, e.residuals[e.next_candidate] / e.length
    out = [
        f"Class {e.candidate} comes closest: its part of the code leaves {_percent(best)} of the sample's length "
        f"unexplained, that of the next, class {e.next_candidate}, {_percent(second)}."
    ]
    if math.isfinite(e.usual_residual):
        # Lengths of known samples are not kept; where samples are normalised all are 1.
        usual = _percent(e.usual_residual) if math.isclose(e.length, 1.0, rel_tol=1e-6) else f"{e.usual_residual:.3g}"
        mine = "" if usual.endswith("%") else f" (here {e.residuals[e.candidate]:.3g})"
        out.append(f"Nine in ten {_known(e)} leave at most {usual}{mine}.")
    return out


def _code(e: Explanation) -> list[str]:
    if not e.atoms:
        return []
    heaviest = max(e.shares, key=lambda label: e.shares[label])
    out = [f"{_percent(e.shares[e.candidate])} of the code lies on class {e.candidate}"]
    if heaviest != e.candidate:
        out[0] += f", more ({_percent(e.shares[heaviest])}) on class {heaviest}"
    if math.isfinite(e.usual_share):
        out[0] += f"; nine in ten {_known(e)} have at least {_percent(e.usual_share)} on one class"
    out[0] += "."
    named = [f"row {a.row} (class {a.label}, {_signed(a.coefficient, 2)})" for a in e.atoms[:_NAMED]]
    if len(e.atoms) == 1:
        out.append(f"It is rebuilt from one training sample, {named[0]}.")
    else:
        above_all = ", above all" if len(e.atoms) > _NAMED else ":"
        out.append(f"It is rebuilt from {len(e.atoms)} training samples{above_all} {join_names(named)}.")
    return out


def _reasons(e: Explanation) -> list[str]:
    if e.rule != "calibrated":
        return _tails(e)
    parts = {part.name: part for part in e.evidence}
    if e.refused and e.reasons:
        named = join_names([_measured(parts[name]) for name in e.reasons])
        first = f"What speaks for a stranger: {named}."
        if e.reasons_suffice:
            these = "these" if len(e.reasons) > 1 else "this"
            return [first, f"Had {these} been as in {_average(e)}, it would have been accepted."]
        return [first]
    if e.refused:
        return [f"Nothing about it is stranger than {_average(e)}; it is the low threshold that refuses it."]
    if e.evidence and e.evidence[0].contribution > 0:
        return [f"What speaks most for a stranger, not enough to refuse it: {_measured(e.evidence[0])}."]
    return [f"Nothing about it is stranger than {_average(e)}."]


def _tails(e: Explanation) -> list[str]:
    """The rules that are made of tails: how far out the errors lie."""
    inside = "within what is usual"
    matched = f"at {e.matched_probability:.2f} of its tail" if e.matched_probability > 0 else inside
    out = f"The error that class {e.candidate} leaves is {matched}"
    if e.rule == "paper":
        nonmatched = f"at {e.nonmatched_probability:.2f} of its tail" if e.nonmatched_probability > 0 else inside
        out += f"; the sum of the errors of the other classes is {nonmatched}"
    ending = " (0 where the tail begins, 1 beyond all known samples)." if "tail" in out else "."
    return [out + ending]


def _measured(part: WeighedEvidence) -> str:
    return f"{PHRASES[part.name]} ({_signed(part.standardised, 1)} standard deviations)"


def _average(e: Explanation) -> str:
    return "the average known sample" if e.is_p_value else "the average pretended stranger"


def _known(e: Explanation) -> str:
    return f"known samples of class {e.candidate}" if e.compared_with == "class" else "known samples"


def _signed(number: float, digits: int) -> str:
    return f"{number:+.{digits}f}".replace("-", "−")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _percent_of(share: float) -> str:
    if share < 0.001:
        return "Fewer than 0.1 %"
    return f"{100 * share:.1f} %" if share < 0.1 else _percent(share)


def apart(a: float, b: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to see which is larger."""
    for digits in range(3, 17):
        texts = f"{a:.{digits}f}", f"{b:.{digits}f}"
        if a == b or texts[0] != texts[1]:
            break
    return texts
