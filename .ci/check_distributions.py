"""Check the sdist and the wheel in a folder: what they say of themselves, and that no file of the package is missing.

Stubs (``.pyi``), templates and protocols are read at run time, so a wheel that has only modules would not work.
"""

import re
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def check_metadata(text: str, project: dict) -> None:
    """Compare the metadata of a distribution with pyproject.toml."""
    metadata = Parser().parsestr(text)
    version = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/srosr/__init__.py").read_text(encoding="utf-8"), re.M)
    assert metadata["Name"] == project["name"]
    assert version and metadata["Version"] == version[1], metadata["Version"]
    assert metadata["Summary"] == project["description"]
    assert metadata["Requires-Python"] == project["requires-python"]
    assert metadata["License-Expression"] == project["license"]
    assert set(metadata.get_all("Provides-Extra")) == set(project["optional-dependencies"])
    assert metadata.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    required = {line.replace(" ", "").lower() for line in metadata.get_all("Requires-Dist") if "extra ==" not in line}
    declared = {line.replace("_", "-").lower() for line in project["dependencies"]}
    assert {line.replace("_", "-") for line in required} == declared, required ^ declared


def files_under(folder: str) -> set[str]:
    """Return the files of a folder of the repository, without what Python and Numba compile into it."""
    found = (path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file())
    return {path.as_posix() for path in found if "__pycache__" not in path.parts}


def main(folder: str) -> None:
    (wheel,) = Path(folder).glob("*.whl")
    (sdist,) = Path(folder).glob("*.tar.gz")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    package = {name.removeprefix("src/") for name in files_under("src/srosr")}

    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (info,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        check_metadata(archive.read(f"{info}/METADATA").decode(), project)
        assert b"srosr = srosr.cli.app:main" in archive.read(f"{info}/entry_points.txt")
        assert f"{info}/licenses/LICENSE" in archive.namelist()
    assert names == package, f"in the wheel or in the source only: {sorted(names ^ package)}"

    with tarfile.open(sdist) as archive:
        top = sdist.name.removesuffix(".tar.gz")
        held = {name.removeprefix(f"{top}/") for name in archive.getnames()}
        check_metadata(archive.extractfile(f"{top}/PKG-INFO").read().decode(), project)
    needed = files_under("src") | files_under("tests") | {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"}
    assert needed <= held, f"not in the source distribution: {sorted(needed - held)}"
    print(f"{wheel.name}: {len(names)} files, {sdist.name}: {len(held)}; metadata as in pyproject.toml")


if __name__ == "__main__":
    main(*sys.argv[1:])
