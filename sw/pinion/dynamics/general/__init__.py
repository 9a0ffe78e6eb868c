"""Dynamics for joints of any kind as dense NumPy: float models.

The functions of :mod:`pinion.dynamics` come here for a robot with a joint that is neither revolute
nor prismatic. Everything is in base axes about one point, as 6-vectors ``[angular; linear]`` and
6x6 matrices with the batch in front; nothing here is traced.

The same functions stand beside this package over scalars, for every joint too: written for the
fewest operations, because those become hardware and programs. Here the aim is the textbook's form,
whatever a dense product costs. :mod:`pinion.dynamics` says more of why there are two.
"""

from __future__ import annotations
