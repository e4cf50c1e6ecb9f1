"""The charts of a result: each is one line of data, drawn from what collectors stored."""
