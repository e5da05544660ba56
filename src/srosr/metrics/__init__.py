r"""Open set metrics, by the names of the papers they come from.

A test set holds samples of known classes, under their class, and samples of classes that training never saw, all
under ``unknown_label``. A recogniser accepts a sample, naming a class, or refuses it, naming ``unknown_label``. What
can happen is counted as Scheirer et al. do:

===========================  ==========
sample and answer            counted as
===========================  ==========
known, accepted, right       TP
known, any other answer      FN
unknown, accepted            FP
unknown, refused             TN
===========================  ==========

Curves and areas take the score instead of the answer: larger is more unknown, and a threshold t accepts the samples
with a score of at most t. Only the order of the scores matters, so infinite ones are welcome.

Where papers mean different things by one name, the variants have names of their own. ``inputs`` checks what all of
them are given; ``confusion``, ``f_measure`` and ``accuracy`` measure answers, ``scores`` and ``oscr`` scores;
``problem`` is about the problem itself.
"""

from .accuracy import (
    harmonic_normalised_accuracy,
    normalised_accuracy,
    open_set_accuracy,
    recognition_accuracy,
    rejection_accuracy,
    youden_j,
)
from .confusion import open_set_confusion
from .f_measure import open_set_f_measure
from .oscr import ccr_at_fpr, oscr_area, oscr_curve
from .problem import mark_unknown, openness
from .scores import fpr_at_tpr, open_set_aupr, open_set_auroc

__all__ = [
    "ccr_at_fpr",
    "fpr_at_tpr",
    "harmonic_normalised_accuracy",
    "mark_unknown",
    "normalised_accuracy",
    "open_set_accuracy",
    "open_set_aupr",
    "open_set_auroc",
    "open_set_confusion",
    "open_set_f_measure",
    "openness",
    "oscr_area",
    "oscr_curve",
    "recognition_accuracy",
    "rejection_accuracy",
    "youden_j",
]
