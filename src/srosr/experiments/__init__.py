"""Experiments: protocols in TOML, trials that can be killed and resumed, figures and a report.

A file a step, each importing only from those before it:

attempt → protocol → contenders → protocol_file → trial → atomic_file → record_file → run_identity → results_folder
→ tables → worker_process → local_processes → dask_cluster → executors → runner → metric_info → statistics
→ method_strokes → openness_figures → method_panels → detail_figures → inline_svg → wording → rotation → recommendation
→ report_text → report_figures → report_times → report → reproduction

and, beside them, sampled_classes.

Names are loaded at first use: a worker process must not wait for what it does not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .protocol import Protocol, ProtocolError, Trial
    from .protocol_file import load_protocol, protocol_names

__all__ = ["Protocol", "ProtocolError", "Trial", "load_protocol", "protocol_names"]

_HOME = {
    "Protocol": "protocol",
    "ProtocolError": "protocol",
    "Trial": "protocol",
    "load_protocol": "protocol_file",
    "protocol_names": "protocol_file",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
