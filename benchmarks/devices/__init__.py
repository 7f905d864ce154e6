"""Models on simulated microcontrollers: `python -m benchmarks.devices`."""
