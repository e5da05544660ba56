"""Experiments: protocols in TOML, trials that can be killed and resumed, figures and a report.

A file a step, each importing only from those before it:

attempt → protocol → contenders → protocol_file → trial → atomic_file → record_file → run_identity → results_folder
→ tables → worker_process → local_processes → dask_cluster → executors → runner → metric_info → statistics
→ method_strokes → openness_figures → method_panels → detail_figures → inline_svg → wording → rotation → recommendation
→ report_text → report_figures → report_times → report → reproduction

and, beside them, sampled_classes.

Names are loaded at first use: a worker process must not wait for what it does not need.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
