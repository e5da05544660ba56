"""Explanations in words: one sentence per fact, for readers who know neither sparse codes nor tails."""

from __future__ import annotations

import math
from typing import Any

from .._support.messages import join_names
from .explanation_facts import ExplanationFacts, WeighedClassScore, WeighedEvidence

#: Short names of the evidence, for the axis of a figure.
NAMES = {
    "matched": "error of the best class",
    "nonmatched": "errors of other classes",
    "concentration": "concentration of the code",
    "ratio": "best vs. second class",
    "surplus": "part from other classes",
    "collaborative": "collaborative score",
    "margin": "collaborative margin",
    "subspace": "best vs. second subspace",
    "local": "local score",
    "local_margin": "local margin",
    "gaussian": "relative Mahalanobis distance",
    "gaussian_margin": "Mahalanobis margin",
    "nearest": "distance to the nearest sample",
    "standardized": "score on standardized columns",
    "standardized_margin": "margin on standardized columns",
    "standardized_nearest": "nearest on standardized columns",
    "fused": "fused class score",
    "fused_margin": "fused class margin",
}
#: What each kind of evidence looks like for an unknown sample.
PHRASES = {
    "matched": "large error of the best class",
    "nonmatched": "small errors of the other classes",
    "concentration": "code spread over several classes",
    "ratio": "second class nearly as good",
    "surplus": "large part from other classes",
    "collaborative": "low collaborative score",
    "margin": "small collaborative margin",
    "subspace": "second subspace nearly as close",
    "local": "low local score",
    "local_margin": "small local margin",
    "gaussian": "large relative Mahalanobis distance",
    "gaussian_margin": "small Mahalanobis margin",
    "nearest": "large distance to the nearest training sample",
    "standardized": "low score on standardized columns",
    "standardized_margin": "small margin on standardized columns",
    "standardized_nearest": "large distance to the nearest training sample on standardized columns",
    "fused": "low fused class score",
    "fused_margin": "small fused class margin",
}
#: Names of the class scores, for sentences about the candidate.
CLASS_SCORE_NAMES = {
    "residual": "residual",
    "collaborative": "collaborative score",
    "local": "local score",
    "subspace": "distance to its subspace",
    "gaussian": "Mahalanobis distance",
    "nearest": "nearest sample",
    "standardized": "score on standardized columns",
    "standardized_nearest": "nearest sample on standardized columns",
}
# Atoms named in the text.
_NAMED = 3


def describe_explanation(e: ExplanationFacts) -> str:
    """Return the decision, the fit of the classes, the code and the reasons, one paragraph per line."""
    if e.length == 0:
        return "Rejected: the sample has length zero, so there is nothing to recognize."
    paragraphs = (_describe_score(e), _describe_fit(e), _describe_code(e), _describe_reasons(e))
    return "\n".join(" ".join(sentences) for sentences in paragraphs if sentences)


def describe_decision(rejected: bool, candidate: Any, unknown_score: float, threshold: float) -> str:
    """Return the decision in one sentence.

    Examples
    --------
    >>> describe_decision(False, "Ann", 0.3, 0.95)
    'Recognized as class Ann: the unknown score 0.300 does not exceed the threshold 0.950.'
    """
    score, limit = format_apart(unknown_score, threshold)
    if rejected:
        return f"Rejected: the unknown score {score} exceeds the threshold {limit}."
    return f"Recognized as class {candidate}: the unknown score {score} does not exceed the threshold {limit}."


def format_apart(a: float, b: float) -> tuple[str, str]:
    """Return two numbers with as many digits as it takes to see which is larger."""
    for digits in range(3, 17):
        texts = f"{a:.{digits}f}", f"{b:.{digits}f}"
        if a == b or texts[0] != texts[1]:
            break
    return texts


def _describe_score(e: ExplanationFacts) -> list[str]:
    out = [describe_decision(e.rejected, e.candidate, e.unknown_score, e.threshold)]
    if e.is_p_value:
        out.append(f"{_format_small_share(e.p_value)} of known samples score at least as high.")
    elif e.rule == "calibrated":
        out.append(
            "The score is the share of simulated unknowns (known classes left out in turn) that score lower: no known "
            "sample could be held out for comparison."
        )
    return [*out, f"(Threshold: {e.threshold_detail}.)"]


def _describe_fit(e: ExplanationFacts) -> list[str]:
    if not e.atoms and e.class_evidence:
        return ["No training sample helps to reconstruct it: the code is zero.", _describe_lead(e, "is named")]
    if not e.atoms:
        return [
            f"No training sample helps to reconstruct it: the code is zero, all classes are equally far away, and "
            f"class {e.candidate} is named only because it comes first."
        ]
    best, second = e.residuals[e.candidate] / e.length, e.residuals[e.next_candidate] / e.length
    if e.class_evidence:
        out = [_describe_lead(e), _describe_residuals(e, best, second)]
    else:
        out = [
            f"Class {e.candidate} fits best: its part of the code leaves {_format_share(best)} of the sample's length "
            f"unexplained; the next best, class {e.next_candidate}, leaves {_format_share(second)}."
        ]
    if math.isfinite(e.usual_residual):
        # The lengths of known samples are not kept; normalized samples have length 1.
        is_unit = math.isclose(e.length, 1.0, rel_tol=1e-6)
        usual = _format_share(e.usual_residual) if is_unit else f"{e.usual_residual:.3g}"
        here = "" if is_unit else f" (here {e.residuals[e.residual_candidate]:.3g})"
        # Held-out samples are compared by the least residual of all classes, which need not be the candidate's here.
        which = "" if e.residual_candidate == e.candidate else ", in the class that leaves least"
        out.append(f"Nine in ten {_name_compared(e)} leave at most {usual}{here}{which}.")
    return out


def _describe_lead(e: ExplanationFacts, verb: str = "fits best") -> str:
    """Describe which class scores put the candidate ahead of the next class, and which speak against it."""
    lead = e.class_scores[e.candidate] - e.class_scores[e.next_candidate]

    def name(parts: list[WeighedClassScore]) -> str:
        return join_names([f"{CLASS_SCORE_NAMES[p.name]} ({_format_signed(p.lead, 1)})" for p in parts])

    ahead = [part for part in e.class_evidence if part.lead > 0][:_NAMED]
    behind = [part for part in e.class_evidence[::-1] if part.lead < -0.05][:_NAMED]
    out = f"Class {e.candidate} {verb}: its class score is ahead of that of class {e.next_candidate} by {lead:.1f}"
    out += f", mainly by {name(ahead)}" if ahead else ""
    return out + (f"; against it: {name(behind)}." if behind else ".")


def _describe_residuals(e: ExplanationFacts, best: float, second: float) -> str:
    """Describe what the candidate and the next class leave unexplained, and the class that leaves least."""
    out = (
        f"Its part of the code leaves {_format_share(best)} of the sample's length unexplained, that of class "
        f"{e.next_candidate} {_format_share(second)}"
    )
    if e.residual_candidate not in (e.candidate, e.next_candidate):
        least = _format_share(e.residuals[e.residual_candidate] / e.length)
        out += f"; the least, {least}, is left by class {e.residual_candidate}"
    return out + "."


def _describe_code(e: ExplanationFacts) -> list[str]:
    if not e.atoms:
        return []
    heaviest = max(e.shares, key=lambda label: e.shares[label])
    shares = f"{_format_share(e.shares[e.candidate])} of the code belongs to class {e.candidate}"
    if heaviest != e.candidate:
        shares += f", less than the {_format_share(e.shares[heaviest])} of class {heaviest}"
    if math.isfinite(e.usual_share):
        shares += f"; nine in ten {_name_compared(e)} have at least {_format_share(e.usual_share)} on one class"
    place, what = ("near row", "learned atom") if e.atoms[0].learned else ("row", "training sample")
    rows = [f"{place} {a.row} (class {a.label}, {_format_signed(a.coefficient, 2)})" for a in e.atoms[:_NAMED]]
    if len(e.atoms) == 1:
        return [f"{shares}.", f"It is reconstructed from one {what}: {rows[0]}."]
    mainly = ", mainly" if len(e.atoms) > _NAMED else ":"
    return [f"{shares}.", f"It is reconstructed from {len(e.atoms)} {what}s{mainly} {join_names(rows)}."]


def _describe_reasons(e: ExplanationFacts) -> list[str]:
    if e.rule != "calibrated":
        return _describe_tails(e)
    parts = {part.name: part for part in e.evidence}
    average = f"the average {'known sample' if e.is_p_value else 'simulated unknown'}"
    if e.rejected and e.reasons:
        named = join_names([_describe_evidence(parts[name]) for name in e.reasons])
        out = [f"Evidence for unknown: {named}."]
        if e.reasons_suffice:
            these = "these" if len(e.reasons) > 1 else "this"
            out.append(f"Had {these} been as in {average}, it would have been accepted.")
        return out
    if e.rejected:
        return [f"No evidence points to unknown more than in {average}; the low threshold rejects it."]
    if e.evidence and e.evidence[0].contribution > 0:
        return [f"Strongest evidence for unknown, not enough to reject: {_describe_evidence(e.evidence[0])}."]
    return [f"No evidence points to unknown more than in {average}."]


def _describe_tails(e: ExplanationFacts) -> list[str]:
    """Describe, for the rules made of tails, how far out the errors lie."""

    def place(probability: float) -> str:
        return f"at {probability:.2f} of its tail" if probability > 0 else "within the usual range"

    out = f"The error of class {e.candidate} is {place(e.matched_probability)}"
    if e.rule == "paper":
        out += f"; the sum of the errors of the other classes is {place(e.nonmatched_probability)}"
    return [out + (" (0 is where the tail begins, 1 is beyond all known samples)." if "tail" in out else ".")]


def _describe_evidence(part: WeighedEvidence) -> str:
    return f"{PHRASES[part.name]} ({_format_signed(part.standardized, 1)} standard deviations)"


def _name_compared(e: ExplanationFacts) -> str:
    return f"known samples of class {e.candidate}" if e.compared_with == "class" else "known samples"


def _format_signed(number: float, digits: int) -> str:
    return f"{number:+.{digits}f}".replace("-", "−")


def _format_share(share: float) -> str:
    return f"{100 * share:.0f} %"


def _format_small_share(share: float) -> str:
    if share < 0.001:
        return "Fewer than 0.1 %"
    return f"{100 * share:.1f} %" if share < 0.1 else _format_share(share)
