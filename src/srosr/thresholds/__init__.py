"""Thresholds on the unknown score, none of which needs an unknown sample."""
