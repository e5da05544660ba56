"""Distributions of reconstruction errors and of their tails."""
