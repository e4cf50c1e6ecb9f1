"""Checks with verdicts: is this server, on this host, fit to be measured and sane?

Facts are gathered by thin readers, judged by pure functions, one a check.
"""
