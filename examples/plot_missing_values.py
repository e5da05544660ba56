"""
Missing values in a pipeline
============================

An imputer of scikit-learn before the classifier fills in missing values. In an
``OpenSetPipeline`` the methods of the classifier stay within reach. How much do empty
cells cost?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import train_test_split

from srosr import SROSRClassifier, make_open_set_pipeline, oscr_area

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, test_size=0.5)
known = y_train < 6
X_train, y_train = X_train[known], y_train[known]
truth = np.where(y_test < 6, y_test, -1)


def blank(X, share):
    """Return samples with a share of their values missing."""
    out = X.copy()
    out[np.random.default_rng(0).random(X.shape) < share] = np.nan
    return out


# %%
# The pipeline decides, explains and changes its threshold like the classifier itself.

pipe = make_open_set_pipeline(
    KNNImputer(), SROSRClassifier(n_repeats=10, random_state=0)
)
pipe.fit(blank(X_train, 0.1), y_train)
rejected = pipe.set_threshold(target_rejection=0.1).decide(blank(X_test, 0.1)).rejected
print("known rejected:", rejected[truth >= 0].mean().round(3))
print("unknown rejected:", rejected[truth < 0].mean().round(3))

# %%
# The area under the OSCR curve, with more and more of all values missing, in training
# and in use. Neighbors know more than medians do.

shares = [0, 0.05, 0.1, 0.2, 0.3]
imputers = {"median": SimpleImputer(strategy="median"), "neighbors": KNNImputer()}
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
for (name, imputer), marker in zip(imputers.items(), "os", strict=True):
    areas = []
    for share in shares:
        clf = SROSRClassifier(n_repeats=10, random_state=0)
        pipe = make_open_set_pipeline(imputer, clf).fit(blank(X_train, share), y_train)
        said = pipe.decide(blank(X_test, share))
        scores = said.unknown_score
        areas.append(oscr_area(truth, said.candidate, scores, unknown_label=-1))
    print(name, np.round(areas, 3))
    ax.plot(100 * np.array(shares), areas, marker=marker, label=name)
ax.set(xlabel="values missing, %", ylabel="OSCR area")
ax.legend(title="imputed by", frameon=False)
