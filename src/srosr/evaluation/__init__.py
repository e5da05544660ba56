"""Evaluation of a model on labeled samples.

``metric_table`` has all metrics of one set of predictions, with confidence intervals; ``evaluation`` collects batches
of decisions into an :class:`~srosr.evaluation.evaluation.Evaluation`.
"""
