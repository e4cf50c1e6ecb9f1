"""From stored runs to numbers, findings, sentences and charts: the answer of an experiment."""
