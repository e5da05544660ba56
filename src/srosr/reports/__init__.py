"""Figures, pages and text for experiments, comparisons and evaluations."""
