"""The commands of the command line, a file each.

Only click is imported at the top of these files, so that ``srosr --help`` is quick: a command loads what it needs when
it runs. What several commands share: ``bad_input`` (how they refuse), ``console`` (how they speak), ``samples`` and
``picture_options`` (how they are told what is in DATA), ``figures`` (where a file can go), ``changed_model`` (for those
that change a model), ``trials`` (for those that run them); ``comparison_data`` is what ``compare`` reads.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
