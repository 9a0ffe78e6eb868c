"""Terminal output of verbs and benchmarks: tables, progress, and errors as one sentence."""
