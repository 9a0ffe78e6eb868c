"""Dynamics for joints of any kind in dense NumPy, for float models.

The functions of :mod:`pinion.dynamics` use this package for robots with a joint that is neither
revolute nor prismatic. Everything is in base axes about one point, as 6-vectors
``[angular; linear]`` and 6x6 matrices with the batch axis first; nothing here is traced.

The same functions exist over scalars, written for the fewest operations; this package has the
textbook's form, whatever a dense product costs. :mod:`pinion.dynamics` explains why there are two.
"""

from __future__ import annotations
