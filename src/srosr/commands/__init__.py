"""The commands of the command line, a file each.

Only click is imported at the top of these files, so that ``srosr --help`` is quick: a command loads what it needs when
it runs. What several commands share: ``bad_input`` (how they refuse), ``data_options`` (how they are told what is in a
file), ``console`` (how they speak), ``figures`` (where a figure goes).
"""
