"""Print the oldest versions that pyproject.toml allows, one ``name==version`` a line: constraints for pip.

``python .ci/oldest.py test images`` prints those of the package and of the extras that are named.
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


def main(extras: list[str]) -> None:
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    requirements = list(project["dependencies"])
    for extra in extras:
        requirements += project["optional-dependencies"][extra]
    print("\n".join(map(pin, requirements)))


if __name__ == "__main__":
    main(sys.argv[1:])
