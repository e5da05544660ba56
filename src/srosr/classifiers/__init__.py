"""The estimators on sparse codes, and the contract that every open set classifier keeps."""
