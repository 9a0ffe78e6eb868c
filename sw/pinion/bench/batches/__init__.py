"""Times of batches on every backend and in publications."""
