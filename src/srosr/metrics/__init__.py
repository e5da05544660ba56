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

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
