"""Pictures of a motion, if MuJoCo can draw off-screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.image import imread

from pinion.control import ControlError
from pinion.control.track import film
from tests.control import small_arm

pytest.importorskip("mujoco", reason="the mujoco library is not installed")


@pytest.mark.slow
def test_a_motion_becomes_pictures(tmp_path: Path) -> None:
    scene = small_arm.scenario(tmp_path / "arm.urdf", duration=0.4)
    motion = scene.motion()
    moving, still = tmp_path / "m.gif", tmp_path / "s.png"
    try:
        frames = film.film(
            scene.simulated(),
            motion.q,
            motion.tip,
            period=0.02,
            moving=moving,
            still=still,
            size=96,
        )
    except ControlError as error:
        pytest.skip(str(error))
    assert frames in film.RENDERERS
    pixels = imread(still)
    assert pixels.shape[:2] == (96, 96 * len(film.STILLS)) and float(pixels.std()) > 0.05
    # It moves: the first still picture differs from the last.
    assert abs(pixels[:, :96] - pixels[:, -96:]).max() > 0.2
    assert moving.read_bytes()[:6] == b"GIF89a"


def test_a_machine_without_a_renderer_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = small_arm.scenario(tmp_path / "arm.urdf")
    motion = scene.motion()
    monkeypatch.setattr(film, "RENDERERS", ("easel",))
    with pytest.raises(ControlError, match=r"No off-screen renderer .* \(easel: .*easel.*\)"):
        film.film(
            scene.simulated(),
            motion.q,
            motion.tip,
            period=0.004,
            moving=tmp_path / "m.gif",
            still=tmp_path / "s.png",
        )
    assert not (tmp_path / "m.gif").exists()
