"""SHOW: text, HTML, figures."""
