"""What verbs and benches put on a terminal: tables, progress, and errors as one sentence."""
