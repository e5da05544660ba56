"""Include files from the root of the repository as pages: README, CONTRIBUTING, CHANGELOG."""

from __future__ import annotations

import os
import re
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parent
#: Page name to the file with its text.
ROOT_PAGES = {
    "project/readme": "README.md",
    "project/contributing": "CONTRIBUTING.md",
    "project/changelog": "CHANGELOG.md",
}
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")


def read_root_pages(app, docname, source):
    """Fill the pages of ``ROOT_PAGES`` with the text of their files, and redirect links to those files to the pages."""
    page = HERE / docname
    text, home = source[0], page.parent
    if docname in ROOT_PAGES:
        file = ROOT / ROOT_PAGES[docname]
        app.env.note_dependency(str(file))
        text, home = file.read_text(encoding="utf-8"), ROOT
    elif not page.with_suffix(".md").exists():
        return

    def rewrite_link(found):
        target = (home / found[2]).resolve()
        for name, file in ROOT_PAGES.items():
            if target == ROOT / file:
                target = HERE / f"{name}.md"
        if target.is_relative_to(HERE) and (home == ROOT or not (home / found[2]).resolve().is_relative_to(HERE)):
            return found[1] + Path(os.path.relpath(target, page.parent)).as_posix() + found[3]
        return found[0]

    source[0] = _LINK.sub(rewrite_link, text)


def setup(app):
    app.connect("source-read", read_root_pages)
    return {"parallel_read_safe": True}
