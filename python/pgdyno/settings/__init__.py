"""What is known about settings of PostgreSQL: values, versions, risk, formulas. No server."""
