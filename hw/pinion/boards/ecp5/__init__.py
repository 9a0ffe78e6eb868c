"""Boards with a Lattice ECP5 and a serial port; open-source tools make their bitstreams."""
