r"""Open set metrics, by the names of the papers they come from.

A test set holds samples of known classes, labeled with their class, and samples of classes that training never saw,
all labeled ``unknown_label``. A classifier accepts a sample and predicts a class, or rejects it and predicts
``unknown_label``. The outcomes are counted as Scheirer et al. do:

===========================  ==========
sample and prediction        counted as
===========================  ==========
known, accepted, right       TP
known, anything else         FN
unknown, accepted            FP
unknown, rejected            TN
===========================  ==========

Curves and areas take the score instead of the prediction: larger is more unknown, and a threshold t accepts the samples
with a score of at most t. Only the order of the scores matters, so they may be infinite. All metrics of samples take
``sample_weight``: an integer weight is the same as repeating the sample, 0 the same as leaving it out.

Where papers mean different things by one name, the variants have names of their own. ``inputs`` checks the arguments;
``confusion``, ``f_measure`` and ``accuracy`` measure predictions, ``ranking`` and ``oscr`` scores; ``unknown_classes``
is about the problem itself.
"""
