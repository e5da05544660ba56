"""PyTorch, imported at its first use.

It is an extra: modules for devices can be imported without it, and what they define asks for it when it runs.
"""

from __future__ import annotations

from typing import Any

import lazy_loader

torch: Any = lazy_loader.load("torch")
