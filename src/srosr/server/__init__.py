"""Models are served over HTTP: decisions, explanations, changes, and a page to look at them."""
