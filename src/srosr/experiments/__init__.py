"""Experiments: protocols in TOML files, and trials that can be stopped and resumed at any moment.

The modules in the order of the data: ``protocol``, ``protocol_file`` and ``comparison_protocol`` (what an experiment
is), ``trial_methods`` and ``trial`` (one trial), ``run_identity``, ``results_folder`` and
``result_tables`` (files), ``local_processes`` and ``runner`` (execution, also through :mod:`srosr.distributed`),
``statistics`` (means, intervals, tests), and ``digits_demo`` (the demonstration of ``srosr demo``).
"""
