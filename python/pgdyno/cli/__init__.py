"""The command line: one file per verb. The only place that prints."""

import signal
import sys

# A Ctrl-C while the modules are loaded ends the command without a trace of Python.
if sys.argv[0].endswith("/pgdyno") and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
