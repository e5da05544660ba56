"""Explanations, displays and summaries of fitted classifiers."""
