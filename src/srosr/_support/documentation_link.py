"""The link to its documentation in the HTML representation of an estimator."""

from __future__ import annotations

import os
from importlib import metadata

#: Names the address of the documentation, for those who host a copy of their own.
ADDRESS_VARIABLE = "SROSR_DOCUMENTATION_URL"
_PAGE = "{}/api/generated/srosr.{}.html"


class DocumentationLink:
    """Gives the HTML representation of an estimator of srosr a link to its page in the documentation.

    scikit-learn draws the link where ``_get_doc_link`` returns an address, and none where it returns "". Estimators
    that users derive have no page.
    """

    _doc_link_module = "srosr"

    def _get_doc_link(self) -> str:
        address = find_documentation()
        is_ours = type(self).__module__.partition(".")[0] == self._doc_link_module
        return _PAGE.format(address, type(self).__name__) if is_ours and address is not None else ""


def find_documentation() -> str | None:
    """Return the address of the documentation: of the environment, else of the installed package, else None."""
    named = os.environ.get(ADDRESS_VARIABLE)
    if named:
        return named.rstrip("/")
    try:
        urls = metadata.metadata("srosr").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return None
    for url in urls:
        label, _, address = url.partition(",")
        if label.strip().lower() == "documentation" and address.strip():
            return address.strip().rstrip("/")
    return None
