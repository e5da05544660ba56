"""From evidence to an unknown score, learned on held-out samples and simulated unknowns."""
