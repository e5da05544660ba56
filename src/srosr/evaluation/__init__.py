"""Evaluation of a model on labeled samples.

``intervals`` has confidence intervals, ``metric_table`` all metrics of one set of predictions, and ``evaluation``
collects batches of decisions into an :class:`~srosr.evaluation.evaluation.Evaluation`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
