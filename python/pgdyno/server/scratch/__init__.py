"""A scratch PostgreSQL: made, configured, started, ended and removed by pgdyno."""
