"""Boards with a Lattice ECP5 and a serial port: from a build to a bitstream with open tools."""
