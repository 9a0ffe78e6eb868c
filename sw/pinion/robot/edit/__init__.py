"""Editing of models: locked joints, chains to a link, coupled joints, payloads."""
