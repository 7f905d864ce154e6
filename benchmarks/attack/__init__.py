"""Attacks from outside: damaged files, faults of the disk, kills, odd numbers; see `python -m benchmarks.attack`."""
