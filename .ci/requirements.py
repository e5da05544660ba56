"""Print requirements from pyproject.toml, one a line.

``python .ci/requirements.py test images`` prints those of the extras that are named, ``--oldest test`` the oldest
versions that are allowed of the package's own and of the extra, ``name==version``: constraints for pip.
"""

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
BOUND = re.compile(r"(?P<name>[\w.-]+)(\[[\w,.-]+\])?\s*>=\s*(?P<version>[\w.]+)")


def pin(requirement: str) -> str:
    """Return ``name==version`` of a requirement with a lower bound, the only kind that pyproject.toml has."""
    bound = BOUND.fullmatch(requirement)
    if bound is None:
        raise SystemExit(f"{PYPROJECT.name}: {requirement!r} is not of the form name>=version")
    return f"{bound['name']}=={bound['version']}"


def main(arguments: list[str]) -> None:
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    oldest = arguments[:1] == ["--oldest"]
    names = arguments[1:] if oldest else arguments
    extras = [line for name in names for line in project["optional-dependencies"][name]]
    print("\n".join(map(pin, project["dependencies"] + extras) if oldest else extras))


if __name__ == "__main__":
    main(sys.argv[1:])
