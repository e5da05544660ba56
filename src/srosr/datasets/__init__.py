"""Data sets: public ones by name, read from local files or downloaded, and checked; and users' own.

A :class:`Dataset` holds samples, the class of each, class names, and a fingerprint that is the same on every machine.
"""
