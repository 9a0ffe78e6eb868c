"""The experiments of the papers on long chains and many robots."""
