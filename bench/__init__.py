"""The measurer measured: against pgbench, a server without a database, and a bare loop."""
