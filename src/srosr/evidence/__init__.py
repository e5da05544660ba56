"""From codes to evidence: for each class, and for a sample being unknown."""
