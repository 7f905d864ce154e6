"""Benchmarks of the flagship estimators."""
