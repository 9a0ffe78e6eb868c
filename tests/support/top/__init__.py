"""Benches of the whole top: host, DMA engine and monitors in cocotb; scenarios; beats."""
