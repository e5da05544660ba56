"""Run the smoke tests on the linear algebra of other processors, and print what each gave.

    python .ci/kernels.py [PROCESSOR ...] [-- ARGUMENTS OF PYTEST]

OpenBLAS takes the kernels of a processor by its name, if this one can run them; those that it cannot run are left out.
The kernels that this processor gets without a name are tested once, as "own".
"""

import os
import re
import subprocess
import sys
import time

#: The environment that stands for each processor.
KERNELS = {
    "Prescott": {"OPENBLAS_CORETYPE": "Prescott", "OPENBLAS_NUM_THREADS": "1"},
    "Sandybridge": {"OPENBLAS_CORETYPE": "Sandybridge", "OPENBLAS_NUM_THREADS": "2"},
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "2"},
    "SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX", "OPENBLAS_NUM_THREADS": "2"},
    # The kernels that this processor gets, beside code that Numba compiles for any processor of its kind.
    "own": {"NUMBA_CPU_NAME": "generic", "OPENBLAS_NUM_THREADS": "2"},
}
_ASK = """
import numpy.linalg, scipy.linalg, threadpoolctl
found = {str(library["architecture"]) for library in threadpoolctl.threadpool_info() if "architecture" in library}
print(*sorted(found))
"""


def find_kernels(settings: dict[str, str]) -> str:
    """Return the name of the kernels that OpenBLAS takes with these settings."""
    asking = [sys.executable, "-c", _ASK]
    asked = subprocess.run(asking, env=os.environ | settings, stdout=subprocess.PIPE, text=True, check=True)
    return asked.stdout.strip().replace("Katmai", "Prescott")  # two names of the same kernels


def run(name: str, arguments: list[str]) -> tuple[str, bool]:
    """Run pytest as on another processor; return a line about it, and whether all passed."""
    environment = os.environ | KERNELS[name]
    taken = find_kernels(KERNELS[name])
    if name not in ("own", taken):
        return f"{name:12s} left out: the linear algebra here is that of {taken}", True
    begin = time.monotonic()
    command = [sys.executable, "-m", "pytest", *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="", flush=True)
    outcome = ", ".join(re.findall(r"\d+ (?:passed|failed|error|skipped)", done.stdout.strip().rpartition("\n")[2]))
    how = ", ".join(f"{key}={value}" for key, value in KERNELS[name].items())
    return f"{name:12s} {taken:12s} {outcome:24s} {time.monotonic() - begin:4.0f} s  {how}", done.returncode == 0


def main(arguments: list[str]) -> int:
    split = arguments.index("--") if "--" in arguments else len(arguments)
    chosen, given = arguments[:split], arguments[split + 1 :] or ["-q", "-m", "smoke"]
    if not chosen:
        own = find_kernels({})
        chosen = [name for name in KERNELS if name != own]
    if unheard := [name for name in chosen if name not in KERNELS]:
        raise SystemExit(f"no such processor: {', '.join(unheard)}; there are {', '.join(KERNELS)}")
    results = [run(name, given) for name in chosen]
    print("\nprocessor    kernels      tests")
    print("\n".join(line for line, _ in results))
    return 0 if all(passed for _, passed in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
