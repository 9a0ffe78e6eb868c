"""Batches through a card, the driver alone, and a model of the real link."""
