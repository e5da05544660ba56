"""The command line: ``app`` is the group of commands, each command a file of its name.

Only click is imported at the top of these files, so that ``srosr --help`` is quick: a command loads what it needs when
it runs. What is done with a model and samples, and the errors that end a command with exit status 2, are in the room
``operations``. Commands share ``console`` (printing), ``input_data`` (the options of DATA), ``models`` (loading and
saving model files), ``output_paths`` (checks before writing) and ``trial_progress`` (commands that run trials).
``comparison_data`` reads DATA for ``compare``.
"""
