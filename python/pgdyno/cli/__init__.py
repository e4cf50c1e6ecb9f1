"""One short file per verb; the only place that prints."""
