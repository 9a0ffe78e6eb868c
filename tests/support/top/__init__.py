"""Bench of the whole top in cocotb: host, DMA engine, monitors, scenarios and packets."""
