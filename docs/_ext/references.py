"""Choose which members of a class the reference shows, and resolve names in docstrings."""

from __future__ import annotations

import importlib


def skip_foreign_members(app, what, name, obj, skip, options):
    """Skip inherited members that this package does not define; scikit-learn documents its own."""
    home = getattr(getattr(obj, "fget", obj), "__module__", None) or "srosr"
    return True if not home.startswith("srosr") else None


def find_by_identity(app, env, node, contnode):
    """Link an object that a docstring names by its module to the page of its exported name."""
    if node.get("refdomain") != "py":
        return None
    domain, target = env.get_domain("py"), node["reftarget"]
    found = _find_object(target, node.get("py:module"))
    home, own_name = getattr(found, "__module__", None) or "", getattr(found, "__qualname__", "")
    pages = [name for name in (f"srosr.{own_name}", f"{home}.{own_name}") if name in domain.objects]
    pages = pages or [name for name in domain.objects if name.endswith("." + target.rpartition(".")[2])]
    if len(set(pages)) == 1:
        return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", pages[0], node, contnode)
    # A name of ours without a page, or a Python built-in: show it without a link.
    home = home or getattr(found, "__name__", "")
    return contnode if found is not None and home.startswith(("srosr", "builtins")) else None


def _find_object(target, module):
    """Return the object that a dotted name refers to, or None."""
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
    app.connect("autodoc-skip-member", skip_foreign_members)
    app.connect("missing-reference", find_by_identity)
    return {"parallel_read_safe": True}
