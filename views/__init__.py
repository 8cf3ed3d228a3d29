"""The answer of every command, and its forms: text, Markdown, JSON, CSV, charts and pages."""
