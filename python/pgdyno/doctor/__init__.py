"""Checks with verdicts: can this server, on this host, be measured and trusted? Thin readers gather
facts; pure functions judge them, one function a check.
"""
