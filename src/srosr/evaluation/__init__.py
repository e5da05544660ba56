"""A model measured on labelled samples, drawn and reported.

Each file imports only from those before it: ``intervals`` → ``metrics`` → ``gathering`` (batches of decisions in, an
:class:`~srosr.evaluation.evaluation.Evaluation` out) → ``text`` → ``figure`` → ``report`` (with ``page.html.j2``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
