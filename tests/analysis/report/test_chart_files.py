"""Charts as SVG and PNG files."""

import struct
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from analysis.cli import main
from analysis.report import svg
from analysis.report.chart_files import SCALE
from tests.analysis.report.pages import tree, words

SVG = "{http://www.w3.org/2000/svg}"


def call(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["report", *map(str, arguments)])
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def folder(replay: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("charts") / "slides"
    code, output = call(replay, "--charts", place)
    assert code == 0, output
    assert sorted(output.split()) == sorted(map(str, place.iterdir()))
    return place


def test_each_chart_of_the_page_is_a_file(folder: Path, pages: dict[str, Path]) -> None:
    figures = {str(figure.get("id")) for figure in tree(pages["one"]).findall(".//figure")}
    assert {path.name for path in folder.iterdir()} == {f"{name}.{form}" for name in figures for form in ("svg", "png")}


def test_an_svg_needs_nothing_but_itself(folder: Path, pages: dict[str, Path]) -> None:
    titles = {figure.get("id"): words(figure.find("h3")) for figure in tree(pages["one"]).findall(".//figure")}  # type: ignore[arg-type]
    for path in folder.glob("*.svg"):
        text, root = path.read_text(), ET.fromstring(path.read_text())
        assert "var(" not in text
        assert root.tag == f"{SVG}svg"
        assert root.findtext(f"{SVG}title") == titles[path.stem]
        drawn = list(root.iter(f"{SVG}text"))
        assert drawn
        assert "Arial" in str(root.get("font-family"))
        assert not [element for element in drawn if element.get("font-family")]
        colours = {value for element in root.iter() for value in (element.get("fill"), element.get("stroke")) if value}
        assert colours <= {"none", "transparent", "#ffffff"} | {light for light, _, _ in svg.COLOURS.values()}


def test_a_png_has_twice_the_pixels_of_its_svg(folder: Path) -> None:
    for path in folder.glob("*.png"):
        data = path.read_bytes()
        assert data.startswith(b"\x89PNG")
        root = ET.fromstring(path.with_suffix(".svg").read_text())
        size = [float(str(root.get(name))) for name in ("width", "height")]
        assert struct.unpack(">2I", data[16:24]) == pytest.approx([SCALE * side for side in size], abs=1)
        assert size[0] == pytest.approx(svg.WIDTH, rel=0.1)


def test_other_files_of_the_folder_are_kept(replay: Path, tmp_path: Path) -> None:
    kept = tmp_path / "charts" / "notes.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    code, output = call(replay, "--charts", kept.parent)
    assert (code, "the folder is not empty; name another, or pass --force" in output) == (2, True)
    assert list(kept.parent.iterdir()) == [kept]
    code, output = call(replay, "--charts", kept.parent, "--force", "-o", tmp_path / "run.csv")
    assert code == 0, output
    assert kept.read_text() == "mine"
    assert (kept.parent / "bandwidth.svg").exists()
    assert (tmp_path / "run.csv").exists()


def test_wrong_folders_are_refused(replay: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder, problem in (
        (tmp_path / "file", "not a folder"),
        (replay / "charts", "in the run"),
        (tmp_path / "none" / "charts", "there is no folder"),
    ):
        code, output = call(replay, "--charts", folder)
        assert (code, problem in output) == (2, True), output
