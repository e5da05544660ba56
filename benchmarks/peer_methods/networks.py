"""torchosr as its quick start uses it: a small network over the features that rejects below a probability.

Its ``TSoftmax`` with its network for feature vectors (``flat_fc_lower_stack``, 64 hidden units), its own training loop,
the batches and epochs of its quick start and its threshold for this number of classes (``get_softmax_epsilon``; that
table ends at ten classes; beyond that it is the default of ``TSoftmax``). One thing differs, in its favor: Adam, since
plain gradient descent at the quick start's step size learns less from a thousand samples.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.methods import Answers
from benchmarks.peer_methods.recipes import Prepared
from benchmarks.trials import UNKNOWN

HIDDEN = 64
EPOCHS = 128
BATCH = 64
STEP = 1e-3
DEFAULT_THRESHOLD = 0.5
"""The default of ``TSoftmax``."""


def thresholded_softmax(prepared: Prepared) -> Answers:
    """Reject samples for which the largest softmax probability of torchosr's network is below its threshold."""
    import torch
    from torchosr.architectures.architectures import flat_fc_lower_stack
    from torchosr.models import TSoftmax
    from torchosr.utils.base import get_softmax_epsilon

    trial, started = prepared.trial, time.perf_counter()
    torch.manual_seed(prepared.seed)
    classes, codes = np.unique(trial.y, return_inverse=True)
    n_known = len(classes)
    X = torch.tensor(trial.X, dtype=torch.float32)
    one_hot = torch.eye(n_known + 1)[torch.tensor(codes)]  # the last column is for unknown samples: there are none
    try:
        threshold = float(get_softmax_epsilon(n_known))
    except KeyError:
        threshold = DEFAULT_THRESHOLD
    model = TSoftmax(
        lower_stack=flat_fc_lower_stack(X.shape[1], HIDDEN),
        n_known=n_known,
        epsilon=threshold,
    )
    data = torch.utils.data.TensorDataset(X, one_hot)
    rows = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(data), BATCH, drop_last=False)
    batches = torch.utils.data.DataLoader(data, sampler=rows, batch_size=None)
    loss, optimizer = torch.nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=STEP)
    for _ in range(EPOCHS):
        model.train(batches, loss, optimizer)
    fitted = time.perf_counter()

    queries = torch.tensor(trial.X_test, dtype=torch.float32)
    with torch.no_grad():
        probability = torch.softmax(model(queries), dim=1).numpy().astype(np.float64)
    answer = model.predict(queries).numpy()
    candidate, score = classes[probability.argmax(axis=1)], 1 - probability.max(axis=1)
    label = np.where(answer == n_known, UNKNOWN, classes[np.minimum(answer, n_known - 1)])
    return Answers(candidate, score, label, fitted - started, time.perf_counter() - fitted)
