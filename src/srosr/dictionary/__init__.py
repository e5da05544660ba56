"""From samples to a dictionary: atoms, labels, a kernel and the Gram matrix that everything else is computed from."""
