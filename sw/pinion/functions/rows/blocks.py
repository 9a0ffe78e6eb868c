"""Arrays that several rows take or give."""

from __future__ import annotations

from pinion.functions.blocks import Block, Quantity, Uniform

Q = Block(name="q", shape=("nq",), unit="rad | m", sampling=Quantity.POSITION)
QD = Block(name="qd", shape=("nv",), unit="rad/s | m/s", sampling=Quantity.VELOCITY)
QDD = Block(name="qdd", shape=("nv",), unit="rad/s^2 | m/s^2", sampling=Quantity.ACCELERATION)
TAU = Block(name="tau", shape=("nv",), unit="N m | N", sampling=Quantity.EFFORT)
FEXT = Block(name="fext", shape=("bodies", 6), unit="N m, N", sampling=Quantity.EXTERNAL_FORCE)
DT = Block(name="dt", shape=(), unit="s", sampling=Uniform(0.001, 0.01))

MATRIX = ("nv", "nv")
