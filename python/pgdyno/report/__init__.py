"""Shows an answer as text, HTML page, JSON, Markdown, PDF and pictures. It computes nothing."""
