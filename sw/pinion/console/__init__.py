"""Terminal output of commands and benchmarks: tables, progress, and one-line errors."""
