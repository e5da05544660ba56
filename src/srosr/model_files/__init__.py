"""Model files: fitted classifiers written to and read from disk without pickle."""
