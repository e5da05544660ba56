"""Solve problems by the Triton kernel in Triton's interpreter, which runs on any machine: a program for tests.

It reads jobs from its input until that ends, pickled dicts with the arrays ``atoms`` and ``X``, a ``problem`` and
options, and writes a pickled dict of arrays for each, or a text that says what went wrong. It is a process of its own,
since Triton must be told at its import, and takes one job after another, since its imports take seconds.
"""

import os
import pickle
import sys
import traceback
from unittest.mock import patch

os.environ["TRITON_INTERPRET"] = "1"

import torch

from srosr import sparse_encode
from srosr.coding.device import device_coder, path_solver
from srosr.coding.device.path_solver import PathSolver, Variant, _count_processors

CPU = torch.device("cpu")


def make_solver(job, *arguments):
    """Return a solver that uses the kernel."""
    solver = PathSolver(*arguments)
    solver.by_kernel, solver.is_coarse = True, job["is_coarse"]
    solver.sizes = job.get("sizes", solver.sizes)
    solver._solve_plainly = fail  # else what the kernel does not solve would be solved without it
    return solver


def fail(*_arguments):
    """Refuse to solve what the kernel has lost."""
    raise AssertionError("the kernel has lost samples")


def solve(job):
    """Return the slots of samples over one Gram matrix, or one each, perhaps padded."""
    atoms, X, problem = (job[name] for name in ("atoms", "X", "problem"))
    gram, cross = torch.as_tensor(atoms @ atoms.T), torch.as_tensor(X @ atoms.T)
    gram = torch.nn.functional.pad(gram, (0, job.get("padding", 0)))
    if job.get("own_gram"):
        gram = gram.expand(len(X), -1, -1).clone()
    solver = make_solver(job, problem.path_end, min(atoms.shape), CPU)
    squares = torch.as_tensor((X * X).sum(axis=1))
    if job.get("every_other"):
        cross, squares = (values.repeat_interleave(2, dim=0)[::2] for values in (cross, squares))
    found = solver.solve(gram, cross, squares)
    codes = path_solver.spread_codes(found, len(atoms))
    n_programs = Variant(solver.sizes[0], True).count_programs(len(X), _count_processors(CPU))
    return {"codes": codes.numpy(), "n_programs": n_programs} | {k: v.numpy() for k, v in found._asdict().items()}


def encode(job):
    """Return codes by way of the whole coder."""
    with patch.object(device_coder, "PathSolver", lambda *arguments: make_solver(job, *arguments)):
        codes = sparse_encode(job["X"], job["atoms"], job["problem"], device=CPU)
    return {"codes": codes.toarray(), "status": codes.status, "gap": codes.gap, "on_device": codes.on_device}


def run(job):
    """Return what was found for a job, or what went wrong."""
    names = {"fewest": "_FEWEST", "coarse_passes": "_COARSE_PASSES"}
    settings = {name: job[option] for option, name in names.items() if option in job}
    try:
        with patch.multiple(path_solver, **settings):
            return encode(job) if job.get("whole") else solve(job)
    except Exception:
        return traceback.format_exc()


if __name__ == "__main__":
    torch.set_num_threads(1)
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # what is printed must not get between the answers
    while sys.stdin.buffer.peek(1):
        pickle.dump(run(pickle.load(sys.stdin.buffer)), answers)
        answers.flush()
