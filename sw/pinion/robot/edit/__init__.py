"""Models from models: joints held still, chains cut out, joints coupled, payloads."""
