"""The order of the examples in the gallery: from first steps to your own data."""

ORDER = (
    "plot_quick_start.py",
    "plot_few_samples.py",
    "plot_choosing_a_threshold.py",
    "plot_explaining_a_rejection.py",
    "plot_comparing_rivals.py",
    "plot_a_model_in_use.py",
    "plot_adding_a_class.py",
    "plot_discovering_classes.py",
    "plot_monitoring_a_stream.py",
    "plot_missing_values.py",
    "plot_your_own_protocol.py",
    "plot_pictures_to_decisions.py",
)


def place(filename: str) -> int:
    """Return the position of an example; those not listed come last."""
    return ORDER.index(filename) if filename in ORDER else len(ORDER)
