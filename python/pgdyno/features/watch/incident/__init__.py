"""Says what is wrong with a server, from what was sampled: at most five findings.

Collectors (`sampled`, `locked`, and the core's) -> `Evidence`, sums in bounded memory -> rules, one
pure function for each kind of finding -> `Finding`, in the order of lost time. Text, page, JSON
document and live lines show the same list.
"""
