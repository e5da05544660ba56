"""Small dictionaries: fewer atoms than training samples, chosen among the samples or learned from them."""
