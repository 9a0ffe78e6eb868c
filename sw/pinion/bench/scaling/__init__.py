"""The papers' experiments with long chains and many robots."""
