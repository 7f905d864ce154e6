"""Contract suites for new parts, naive oracles and a counting kernel."""
