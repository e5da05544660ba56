"""A model measured on labelled samples, drawn and reported.

Each file imports only from those before it: ``intervals`` → ``metrics`` → ``gathering`` (batches of decisions in, an
:class:`~srosr.evaluation.gathering.Evaluation` out) → ``text`` → ``figure`` → ``report`` (with ``page.html.j2``).
"""
