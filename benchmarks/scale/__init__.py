"""Benchmarks of rows that do not fit in memory, of many workers, and of fits that are killed."""
