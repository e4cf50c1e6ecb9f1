"""Text scripts: built-ins of pgbench and pgdyno, and the user's own files."""
