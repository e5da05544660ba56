"""Streams of samples are watched: rejection rate, a test for changes, samples near the threshold, mix of classes."""
