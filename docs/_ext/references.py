"""What the reference shows of a class, and where names in docstrings lead."""

from __future__ import annotations

import importlib


def skip_what_is_not_ours(app, what, name, obj, skip, options):
    """Of inherited members show those that this package defines; scikit-learn documents its own."""
    home = getattr(getattr(obj, "fget", obj), "__module__", None) or "srosr"
    return True if not home.startswith("srosr") else None


def find_by_identity(app, env, node, contnode):
    """A docstring may name an object by the module it lives in; lead to the page of the exported name."""
    if node.get("refdomain") != "py":
        return None
    domain, target = env.get_domain("py"), node["reftarget"]
    found = _object(target, node.get("py:module"))
    home, own_name = getattr(found, "__module__", None) or "", getattr(found, "__qualname__", "")
    pages = [name for name in (f"srosr.{own_name}", f"{home}.{own_name}") if name in domain.objects]
    pages = pages or [name for name in domain.objects if name.endswith("." + target.rpartition(".")[2])]
    if len(set(pages)) == 1:
        return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", pages[0], node, contnode)
    # One of ours that has no page of its own, or Python's: its name, without a link.
    home = home or getattr(found, "__name__", "")
    return contnode if found is not None and home.startswith(("srosr", "builtins")) else None


def _object(target, module):
    """What a dotted name stands for, or None."""
    for whole in (target, f"{module}.{target}", f"srosr.{target}", f"builtins.{target}"):
        parts = whole.split(".")
        for n in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:n]))
                for part in parts[n:]:
                    found = getattr(found, part)
            except (ImportError, AttributeError):
                continue
            return found
    return None


def setup(app):
    app.connect("autodoc-skip-member", skip_what_is_not_ours)
    app.connect("missing-reference", find_by_identity)
    return {"parallel_read_safe": True}
