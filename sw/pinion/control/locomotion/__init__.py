"""Legged robots: gaits as motions, the ground under the feet, and walks in a simulator."""
