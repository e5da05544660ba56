"""Helpers used everywhere, which import nothing else of ours. Its modules are imported one by one."""
