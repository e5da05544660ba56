"""The order of the examples in the gallery: from the first steps to one's own data."""

ORDER = (
    "plot_quick_start.py",
    "plot_few_samples.py",
    "plot_choosing_a_threshold.py",
    "plot_explaining_a_refusal.py",
    "plot_comparing_rivals.py",
    "plot_adding_a_class.py",
    "plot_your_own_protocol.py",
    "plot_pictures_to_decisions.py",
)


def place(filename: str) -> int:
    """Place of an example; those that are not named come last."""
    return ORDER.index(filename) if filename in ORDER else len(ORDER)
