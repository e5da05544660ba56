"""Select the tests to run: slow ones on request, those on real data if the data are available.

The default run leaves out the tests marked ``slow`` and tries a quarter of the examples of every property test;
``--slow`` runs all tests with half of the examples, and ``--slow -m "slow or hypothesis"`` what the default run leaves
out, and little else. All examples, and others in every run, are tried with ``--hypothesis-profile random``.

``SROSR_DATA_DIR`` names the folder of data sets. A test that asks for the fixture ``data_dir`` is marked
``realdata``. Without the folder such tests are skipped with the reason; with ``SROSR_REQUIRE_DATA=1``,
which continuous integration sets where it has the data, a skipped ``realdata`` test is a failed one. Tests of coding on
a device are skipped without PyTorch and Triton, unless ``SROSR_REQUIRE_TORCH=1``.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings
from scale import FULL

# Two processes run tests: threads of BLAS beside them only wait for each other. `.ci/kernels.py` runs tests with two.
# The variable is read when BLAS is loaded, which nothing has done yet.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if os.environ.get("SROSR_REQUIRE_TORCH") == "1":
    import torch  # noqa: F401
    import triton  # noqa: F401

# What a minute can tell of another Python or of old libraries: public names, coder, the promises of every family of
# classifiers, thresholds, metrics, files of all kinds, the command line.
SMOKE = {
    "test_calibration",
    "test_class_changes",
    "test_coding_properties",
    "test_command_line_page",
    "test_commands",
    "test_dictionary",
    "test_evidence",
    "test_feature_recipe",
    "test_metrics",
    "test_model_file_format",
    "test_open_set_contract",
    "test_problems",
    "test_protocol",
    "test_public_names",
    "test_results_folder",
    "test_table_readers",
    "test_tables",
    "test_thresholds",
}

#: What tests read in SROSR_DATA_DIR.
DATA = (
    "caltech101/caltech101_dsift_spm_counts.npz",
    "caltech101_images",
    "caltech256/caltech256_clip_vitb32_valtest.npz",
    "coil20/coil20_32x32.npz",
    "letter/letter-recognition.data",
    "letter/letter.npz",
    "mnist/t10k-images-idx3-ubyte.gz",
    "mnist/t10k-labels-idx1-ubyte.gz",
    "mnist/train-images-idx3-ubyte.gz",
    "mnist/train-labels-idx1-ubyte.gz",
    "orl/orl_32x32.npz",
    "uiuc_attributes/apascal_test.txt",
    "uiuc_attributes/apascal_train.txt",
    "uiuc_attributes/attribute_names.txt",
    "uiuc_attributes/ayahoo_test.txt",
    "uiuc_attributes/class_names.txt",
    "uiuc_attributes/uiuc_attributes.npz",
    "usps/usps_7291_2007.npz",
    "usps/usps_all_11000.npz",
    "yaleb/yaleb3232.mat",
)

# No deadlines: how fast a machine is does not decide whether a claim is true.
# The same examples in every run, so that one that fails says that something was changed; "--hypothesis-profile random"
# looks for others.
settings.register_profile("smoke", max_examples=FULL // 8, deadline=None, derandomize=True)
settings.register_profile("quick", max_examples=FULL // 4, deadline=None, derandomize=True)
settings.register_profile("thorough", max_examples=FULL // 2, deadline=None, derandomize=True)
settings.register_profile("random", max_examples=FULL, deadline=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run slow tests, and more examples of property tests")


def pytest_configure(config: pytest.Config) -> None:
    gone = [name for name in sorted(SMOKE) if not Path(__file__).with_name(f"{name}.py").is_file()]
    if gone:
        raise pytest.UsageError(f"SMOKE in {Path(__file__).name} names files that are not there: {', '.join(gone)}")
    if not config.getoption("--hypothesis-profile"):
        usual = "smoke" if config.getoption("markexpr") == "smoke" else "quick"
        settings.load_profile("thorough" if config.getoption("--slow") else usual)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the other files with ``-m smoke``: to import them takes longer than the tests."""
    others = collection_path.suffix == ".py" and collection_path.stem not in SMOKE
    return True if others and config.getoption("markexpr") == "smoke" else None


def _data_required() -> bool:
    return os.environ.get("SROSR_REQUIRE_DATA") == "1"


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk():
    """Leave out what makes files survive a power failure, which no test has; some disks take most of a test for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder of data sets; skip the test if there is none, or if it lacks a file."""
    named = os.environ.get("SROSR_DATA_DIR")
    missing = [name for name in DATA if not Path(named or "", name).exists()]
    if named and not missing:
        return Path(named)
    if not named:
        reason = "SROSR_DATA_DIR is not set: point it at the folder of data sets to run this test"
    elif not Path(named).is_dir():
        reason = f"SROSR_DATA_DIR names {named}, which is not a folder"
    else:
        reason = f"SROSR_DATA_DIR names {named}, which lacks {', '.join(missing)}"
    if _data_required():
        pytest.fail(reason)
    pytest.skip(reason)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "data_dir" in getattr(item, "fixturenames", ()):
            item.add_marker("realdata")
        if item.path.stem in SMOKE:
            item.add_marker("smoke")
    if not config.getoption("--slow"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """Turn any skip of a ``realdata`` test into a failure if the data are required."""
    report = yield
    expected = hasattr(report, "wasxfail")
    if report.skipped and not expected and _data_required() and item.get_closest_marker("realdata"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"SROSR_REQUIRE_DATA=1, but this test was skipped: {reason}"
    return report
