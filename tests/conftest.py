"""Real data for the tests that need it, and no silent skipping where it must be there.

``SROSR_DATA_DIR`` names the folder of data sets. A test that asks for the fixture ``data_dir`` is marked
``realdata``. Without the folder such tests are skipped with the reason; with ``SROSR_REQUIRE_DATA=1``,
which continuous integration sets where it has the data, a skipped ``realdata`` test is a failed one.
"""

import os
from pathlib import Path

import pytest


def _data_required() -> bool:
    return os.environ.get("SROSR_REQUIRE_DATA") == "1"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of data sets; the test is skipped where there is none."""
    named = os.environ.get("SROSR_DATA_DIR")
    if named and Path(named).is_dir():
        return Path(named)
    if named:
        reason = f"SROSR_DATA_DIR names {named}, which is not a folder"
    else:
        reason = "SROSR_DATA_DIR is not set: point it at the folder of data sets to run this test"
    if _data_required():
        pytest.fail(reason)
    pytest.skip(reason)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "data_dir" in getattr(item, "fixturenames", ()):
            item.add_marker("realdata")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """Where the data are required, any skip of a ``realdata`` test fails, whatever caused it."""
    report = yield
    expected = hasattr(report, "wasxfail")
    if report.skipped and not expected and _data_required() and item.get_closest_marker("realdata"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"SROSR_REQUIRE_DATA=1, but this test was skipped: {reason}"
    return report
