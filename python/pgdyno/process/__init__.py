"""Start, watch and end child processes: the only place that does."""
