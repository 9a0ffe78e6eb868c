"""Times of batches on every backend, and from publications."""
