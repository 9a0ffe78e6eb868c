"""Boards with a Lattice ECP5 and a serial port, and their bitstreams from open tools."""
