"""From pictures to feature vectors: reading, dense SIFT against plain loops, pyramids against the paper's kernel."""

from __future__ import annotations

import re
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from same import check_same
from scale import slow_except
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from srosr import SRCClassifier, SROSRClassifier
from srosr.datasets.user_data import list_pictures
from srosr.features.gray_values import read_picture
from srosr.features.sift_descriptors import dense_sift
from srosr.features.spatial_pyramid import SpatialPyramid, pyramid_of_counts
from srosr.metrics.ranking import open_set_auroc

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # the benchmarks are run from the repository and are not installed
    sys.path.insert(0, str(ROOT))

from benchmarks import pyramid as benchmark  # noqa: E402
from benchmarks.trials import CALTECH101_FILES, spatial_pyramid  # noqa: E402

Image = pytest.importorskip("PIL.Image", reason="the extra images is not installed")


def texture(seed, shape=(48, 64)):
    """Return a picture with edges in all directions: smooth noise, stretched to all grays."""
    rough = np.random.default_rng(seed).random((shape[0] + 4, shape[1] + 4))
    smooth = sum(rough[i : i + shape[0], j : j + shape[1]] for i in range(5) for j in range(5))
    return (smooth - smooth.min()) / (smooth.max() - smooth.min())


# --- dense SIFT -----------------------------------------------------------------------------------------


def slow_sift(gray, step, patch):
    """Compute the formulas of the docstring, one pixel at a time."""
    kernel = np.exp(-0.5 * (np.arange(-3, 4) / 0.8) ** 2)
    kernel /= kernel.sum()
    short = [max(patch - n, 0) for n in gray.shape]
    height, width = (max(n, patch) for n in gray.shape)

    def pixel(r, c):
        r, c = r - short[0] // 2, c - short[1] // 2
        return gray[min(max(r, 0), gray.shape[0] - 1), min(max(c, 0), gray.shape[1] - 1)]

    blurred = np.zeros((height, width))
    for r in range(height):
        for c in range(width):
            for i in range(7):
                for j in range(7):
                    inside = min(max(r + i - 3, 0), height - 1), min(max(c + j - 3, 0), width - 1)
                    blurred[r, c] += kernel[i] * kernel[j] * pixel(*inside)

    def slope(values, at):
        before, after = max(at - 1, 0), min(at + 1, len(values) - 1)
        return (values[after] - values[before]) / (after - before)

    found = []
    for top in range((height - patch) % step // 2, height - patch + 1, step):
        for left in range((width - patch) % step // 2, width - patch + 1, step):
            histogram, side = np.zeros((4, 4, 8)), patch / 4
            for r in range(patch):
                for c in range(patch):
                    dy, dx = slope(blurred[:, left + c], top + r), slope(blurred[top + r], left + c)
                    angle = np.degrees(np.arctan2(dy, dx))
                    for i in range(4):
                        for j in range(4):
                            for k in range(8):
                                apart = abs((angle - 45 * k + 180) % 360 - 180) / 45
                                weight = max(0, 1 - abs(r + 0.5 - (i + 0.5) * side) / side)
                                weight *= max(0, 1 - abs(c + 0.5 - (j + 0.5) * side) / side)
                                histogram[i, j, k] += np.hypot(dy, dx) * weight * max(0, 1 - apart) / side**2
            flat = histogram.ravel()
            contrast = np.sqrt((flat**2).sum())
            if contrast > 0:
                flat = np.minimum(flat / contrast, 0.2)
                flat = flat / np.sqrt((flat**2).sum()) * min(1.0, contrast / 0.01)
            found.append(flat)
    return np.array(found)


SMALL = [((5, 19), 4, 12), ((9, 9), 2, 5), ((1, 1), 8, 16)]


@pytest.mark.parametrize(("shape", "step", "patch"), slow_except(SMALL, [((25, 31), 8, 16), ((18, 20), 3, 10), *SMALL]))
def test_descriptors_are_those_of_plain_loops(shape, step, patch):
    gray = np.random.default_rng(0).random(shape)
    gray[:, shape[1] // 2 :] *= 0.01  # low contrast on one side
    descriptors, positions = dense_sift(gray, step, patch)
    expected = slow_sift(gray, step, patch)
    assert descriptors.shape == expected.shape
    assert descriptors.dtype == np.float32
    assert len(positions) == len(descriptors)
    np.testing.assert_allclose(descriptors, expected, atol=1e-6)


def test_neither_brightness_nor_contrast_changes_a_descriptor():
    gray = texture(1)
    expected = dense_sift(gray)[0]
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1.0, atol=1e-6)
    for changed in (0.3 * gray, 0.3 * gray + 0.6, 0.5 + 0.5 * gray):
        np.testing.assert_allclose(dense_sift(changed)[0], expected, atol=1e-5)


def test_a_quarter_turn_moves_cells_and_orientations():
    gray = texture(2, (48, 64))
    grid = dense_sift(gray)[0].reshape(5, 7, 4, 4, 8)
    turned = dense_sift(np.rot90(gray))[0].reshape(7, 5, 4, 4, 8)
    expected = np.rot90(np.rot90(grid, axes=(0, 1)), axes=(2, 3))
    # Turned to the left, what grew brighter to the right does so upwards: two orientations back.
    np.testing.assert_allclose(turned, np.roll(expected, -2, axis=-1), atol=1e-6)


def test_a_mirror_swaps_cells_and_orientations():
    gray = texture(3, (40, 48))
    grid = dense_sift(gray)[0].reshape(4, 5, 4, 4, 8)
    mirrored = dense_sift(gray[:, ::-1])[0].reshape(4, 5, 4, 4, 8)
    np.testing.assert_allclose(mirrored, grid[:, ::-1, :, ::-1][..., (4 - np.arange(8)) % 8], atol=1e-6)


@pytest.mark.parametrize("k", range(8))
def test_a_slope_has_the_orientation_of_its_direction(k):
    rows, columns = np.mgrid[:32, :32] / 100.0
    angle = np.radians(45 * k)
    descriptors = dense_sift(0.5 + columns * np.cos(angle) + rows * np.sin(angle))[0]
    middle = descriptors[4].reshape(16, 8)
    np.testing.assert_allclose(middle[:, k], 0.25, atol=1e-6)
    np.testing.assert_allclose(np.delete(middle, k, axis=1), 0.0, atol=1e-6)


def test_low_contrast_shortens_a_descriptor_and_a_flat_patch_has_none():
    rows, _ = np.mgrid[:16, :16]
    lengths = [np.linalg.norm(dense_sift(slope * rows)[0]) for slope in (0.02, 1e-3, 5e-4, 0.0)]
    assert lengths[0] == pytest.approx(1.0, abs=1e-6)
    assert 0.05 < lengths[1] < 1.0
    assert lengths[2] == pytest.approx(lengths[1] / 2, rel=1e-5)
    assert lengths[3] == 0.0
    assert np.abs(dense_sift(np.full((40, 40), 0.7))[0]).max() < 1e-10


def test_positions_are_centers_of_patches_in_the_middle_of_the_picture():
    _, positions = dense_sift(texture(0, (50, 83)))
    assert len(positions) == 5 * 9
    np.testing.assert_allclose(positions[:2], [[(1 + 8) / 50, (1 + 8) / 83], [(1 + 8) / 50, (9 + 8) / 83]])
    assert ((positions > 0) & (positions < 1)).all()
    assert dense_sift(texture(0, (3, 5)))[1].tolist() == [[0.5, 0.5]]


def test_eight_and_sixteen_bits_are_shares_of_white():
    bits = np.random.default_rng(0).integers(0, 256, (30, 30))
    expected = dense_sift(bits / 255)[0]
    assert np.array_equal(dense_sift(bits.astype(np.uint8))[0], expected)
    np.testing.assert_allclose(dense_sift((257 * bits).astype(np.uint16))[0], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (np.full((20, 20), np.nan), "NaN"),
        (np.full((20, 20), 200.0), "Divide by"),
        (np.full((20, 20), -0.1), "between 0"),
        (np.zeros((20, 20, 3)), "Average the colors"),
        (np.zeros(20), "2-D"),
        (np.zeros((0, 20)), "2-D"),
        (np.array([["a", "b"]]), "numbers"),
        ([[0.1, 0.2], [0.3]], "differ in length"),
    ],
)
def test_an_invalid_gray_picture_raises_an_error_with_the_reason(picture, message):
    with pytest.raises(ValueError, match=message):
        dense_sift(picture)


@pytest.mark.parametrize(("step", "patch", "name"), [(0, 16, "step"), (2.5, 16, "step"), (8, 3, "patch")])
def test_an_invalid_grid_raises_an_error_that_names_the_parameter(step, patch, name):
    with pytest.raises(ValueError, match=name):
        dense_sift(texture(0), step, patch)


# --- reading pictures -----------------------------------------------------------------------------------

BITS = np.random.default_rng(5).integers(0, 256, (7, 11)).astype(np.uint8)


def with_palette(path):
    palette = Image.fromarray(BITS).convert("P")
    assert palette.mode == "P"
    palette.save(path)


def with_sixteen_bits(path):
    Image.fromarray(257 * BITS.astype(np.uint16)).save(path)


def with_cmyk(path):
    black = np.zeros((*BITS.shape, 4), np.uint8)
    black[..., 3] = 255 - BITS
    Image.fromarray(black, "CMYK").save(path)


@pytest.mark.filterwarnings("ignore:'mode' parameter is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "write", "tolerance"),
    [
        ("gray.png", lambda p: Image.fromarray(BITS).save(p), 0),
        ("color.png", lambda p: Image.fromarray(BITS).convert("RGB").save(p), 1e-6),
        ("opaque.png", lambda p: Image.fromarray(BITS).convert("RGBA").save(p), 1e-6),
        ("gray-alpha.png", lambda p: Image.fromarray(BITS).convert("LA").save(p), 1e-6),
        ("palette.gif", with_palette, 1e-6),
        ("sixteen.png", with_sixteen_bits, 1e-6),
        ("sixteen.tif", with_sixteen_bits, 1e-6),
        ("print.tif", with_cmyk, 2 / 255),
        ("float.tif", lambda p: Image.fromarray((BITS / 255).astype(np.float32)).save(p), 1e-6),
        ("plain.pgm", lambda p: Image.fromarray(BITS).save(p), 0),
    ],
)
def test_every_kind_of_file_gives_the_same_grays(tmp_path, name, write, tolerance):
    write(tmp_path / name)
    picture = read_picture(tmp_path / name)
    assert picture.dtype == np.float64
    np.testing.assert_allclose(picture, BITS / 255, atol=tolerance, rtol=0)


def test_black_and_white_and_colors_have_their_grays(tmp_path):
    Image.fromarray(BITS > 100).save(tmp_path / "one.png")
    assert np.array_equal(read_picture(tmp_path / "one.png"), (BITS > 100).astype(float))
    Image.new("RGB", (3, 2), (10, 200, 30)).save(tmp_path / "color.bmp")
    np.testing.assert_allclose(read_picture(str(tmp_path / "color.bmp")), (2.99 + 117.4 + 3.42) / 255, rtol=1e-6)


def test_transparent_parts_lie_on_white(tmp_path):
    image = Image.new("RGBA", (4, 2), (0, 0, 0, 255))
    image.putpixel((1, 0), (0, 0, 0, 0))
    image.save(tmp_path / "hole.png")
    assert read_picture(tmp_path / "hole.png").tolist() == [[0, 1, 0, 0], [0, 0, 0, 0]]
    Image.new("P", (2, 2), 0).save(tmp_path / "palette.gif", transparency=0)
    assert read_picture(tmp_path / "palette.gif").tolist() == [[1, 1], [1, 1]]


def test_a_picture_is_turned_as_its_camera_says(tmp_path):
    for orientation, upright in [(3, np.rot90(BITS, 2)), (6, np.rot90(BITS, -1)), (8, np.rot90(BITS))]:
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.fromarray(BITS).save(tmp_path / "turned.png", exif=exif)
        assert np.array_equal(read_picture(tmp_path / "turned.png"), upright / 255)


@pytest.mark.parametrize(("size", "expected"), [((600, 400), (200, 300)), ((31, 620), (300, 15)), ((1, 900), (300, 1))])
def test_large_pictures_are_scaled_down_to_the_longer_side(tmp_path, size, expected):
    left = Image.new("L", size, 0)
    left.paste(255, (0, 0, size[0], size[1] // 2))
    left.save(tmp_path / "large.png")
    picture = read_picture(tmp_path / "large.png")
    assert picture.shape == expected
    assert picture.mean() == pytest.approx(0.5, abs=0.01)
    assert picture.min() >= 0 and picture.max() <= 1
    assert read_picture(tmp_path / "large.png", max_side=None).shape == size[::-1]


def test_scaling_down_averages_what_is_finer_than_the_new_pixels(tmp_path):
    checkers = (255 * (np.add.outer(np.arange(400), np.arange(400)) % 2)).astype(np.uint8)
    Image.fromarray(checkers).save(tmp_path / "fine.png")
    picture = read_picture(tmp_path / "fine.png", max_side=50)
    np.testing.assert_allclose(picture, 0.5, atol=0.02)


def test_small_pictures_are_never_scaled_up(tmp_path):
    Image.fromarray(BITS).save(tmp_path / "small.png")
    assert read_picture(tmp_path / "small.png", max_side=11).shape == BITS.shape
    assert read_picture(tmp_path / "small.png", max_side=5000).shape == BITS.shape


def broken_files(folder):
    """Write files that are not pictures, and return a word of the expected error for each."""
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (80, 80, 3)).astype(np.uint8)).save(folder / "whole.jpg")
    whole = (folder / "whole.jpg").read_bytes()
    (folder / "text.jpg").write_text("this is no picture, whatever its name says")
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "header.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    Image.fromarray(np.array([[0.0, 7.0]], np.float32)).save(folder / "bright.tif")
    return {"text.jpg": "cannot", "empty.jpg": "empty", "cut.jpg": "truncated", "header.png": "", "bright.tif": "7"}


@pytest.mark.parametrize("name", ["text.jpg", "empty.jpg", "cut.jpg", "header.png", "bright.tif"])
def test_a_broken_file_is_an_error_that_names_it(tmp_path, name):
    message = broken_files(tmp_path)[name]
    for read in (read_picture, lambda path: SpatialPyramid(2).fit([path])):
        with pytest.raises(ValueError, match=f"{name}.*{message}"):
            read(tmp_path / name)


def test_a_picture_too_large_to_be_meant_is_not_unpacked(tmp_path, monkeypatch):
    Image.new("L", (3000, 2000)).save(tmp_path / "bomb.png")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        for most in (5_000_000, 100):  # Pillow warns of the one and raises for the other
            monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", most)
            tracemalloc.start()
            with pytest.raises(ValueError, match=r"bomb\.png.*pixels"):
                read_picture(tmp_path / "bomb.png")
            assert tracemalloc.get_traced_memory()[1] < 2_000_000
            tracemalloc.stop()


def test_missing_files_folders_and_invalid_sizes_raise_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.jpg"):
        read_picture(tmp_path / "nowhere.jpg")
    with pytest.raises(ValueError, match="is a folder"):
        read_picture(tmp_path)
    with pytest.raises(ValueError, match="max_side"):
        read_picture(tmp_path / "nowhere.jpg", max_side=0)


def test_without_pillow_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=re.escape('pip install "srosr[images]"')):
        read_picture(tmp_path / "any.jpg")


@pytest.mark.slow
def test_importing_the_features_does_not_load_pillow():
    program = "import sys, srosr.features; assert not [m for m in sys.modules if m.split('.')[0] == 'PIL']"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


# --- pyramids of counts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("finest", [0, 1, 2, 3])
def test_the_intersection_of_pyramids_is_the_kernel_of_the_paper(finest):
    """Equation (3): new matches at level l weigh 2^(l - L), where matches at level l are those not found at l + 1."""
    rng, side, n = np.random.default_rng(finest), 2**finest, 40
    # One number of words in all pictures, so that scaling to unit sum divides all by it.
    pictures = [rng.multinomial(n, np.full(side * side * 5, 1 / (side * side * 5))) for _ in range(2)]
    pictures = [picture.reshape(side, side, 5) for picture in pictures]

    def matches(level):
        width, found = side // 2**level, 0
        for row in range(2**level):
            for column in range(2**level):
                part = (slice(row * width, (row + 1) * width), slice(column * width, (column + 1) * width))
                found += np.minimum(*(picture[part].sum(axis=(0, 1)) for picture in pictures)).sum()
        return found

    kernel = matches(finest) + sum((matches(k) - matches(k + 1)) * 2.0 ** (k - finest) for k in range(finest))
    rows = pyramid_of_counts(np.reshape(pictures, (2, side * side, 5)), square_root=False)
    assert np.minimum(*rows).sum() == pytest.approx(kernel / n, rel=1e-12)
    np.testing.assert_allclose(rows.sum(axis=1), 1.0)
    np.testing.assert_allclose(pyramid_of_counts(np.reshape(pictures, (2, side * side, 5))) ** 2, rows, rtol=1e-12)


def test_pyramids_of_the_ready_counts_are_those_of_the_benchmark(data_dir):
    with np.load(data_dir / CALTECH101_FILES[0]) as data:
        counts = data["counts"][::50]
    pyramids = pyramid_of_counts(counts)
    assert pyramids.shape == (len(counts), 4200)
    np.testing.assert_allclose(pyramids, spatial_pyramid(counts), rtol=0, atol=1e-15)


def test_pictures_without_words_are_zero_and_counts_do_not_overflow():
    assert not pyramid_of_counts(np.zeros((2, 4, 3), np.uint8)).any()
    many = np.full((1, 16, 1), 255, np.uint8)
    np.testing.assert_allclose(pyramid_of_counts(many, square_root=False)[0, 0], 0.25)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (np.zeros((3, 16)), "n_pictures, n_cells, n_words"),
        (np.zeros((3, 9, 2)), "got 9"),
        (np.zeros((3, 8, 2)), "got 8"),
        (np.zeros((3, 0, 2)), "got 0"),
        (-np.ones((3, 4, 2)), "not negative"),
        (np.full((3, 4, 2), np.nan), "finite"),
        (np.full((3, 4, 2), "a"), "numbers"),
    ],
)
def test_invalid_counts_raise_an_error_with_the_reason(counts, message):
    with pytest.raises(ValueError, match=message):
        pyramid_of_counts(counts)


# --- pyramids of pictures -------------------------------------------------------------------------------


def small_pyramid(**parameters):
    return SpatialPyramid(**{"n_words": 12, "n_descriptors": 500, "random_state": 0, **parameters})


@pytest.fixture(scope="module")
def pictures():
    """Return pictures of several sizes, one of them smaller than a patch."""
    shapes = [(48, 64), (70, 51), (33, 90), (64, 64), (9, 12), (100, 40)]
    return [texture(seed, shape) for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
@pytest.mark.parametrize("square_root", [False, True])
def test_a_pyramid_counts_the_nearest_words_of_each_cell(pictures, levels, square_root):
    pyramid = small_pyramid(levels=levels, square_root=square_root).fit(pictures)
    found = pyramid.transform(pictures)
    names = pyramid.get_feature_names_out().tolist()
    assert found.shape == (len(pictures), 12 * (4**levels - 1) // 3) == (len(pictures), len(names))
    for picture, row in zip(pictures, found, strict=True):
        descriptors, positions = dense_sift(picture)
        words = cdist(descriptors.astype(float), pyramid.vocabulary_).argmin(axis=1)
        expected = dict.fromkeys(names, 0.0)
        for word, (down, right) in zip(words, positions, strict=True):
            for level in range(levels):
                weight = 2.0 ** -(levels - 1) if level == 0 else 2.0 ** -(levels - level)
                cell = f"level{level}_row{int(down * 2**level)}_column{int(right * 2**level)}_word{word}"
                expected[cell] += weight / len(words)
        values = np.array(list(expected.values()))
        np.testing.assert_allclose(row, np.sqrt(values) if square_root else values, atol=1e-12)


def test_a_pyramid_is_a_unit_vector_and_without_square_root_a_histogram(pictures):
    pyramid = small_pyramid().fit(pictures)
    np.testing.assert_allclose(np.linalg.norm(pyramid.transform(pictures), axis=1), 1.0)
    np.testing.assert_allclose(pyramid.set_params(square_root=False).transform(pictures).sum(axis=1), 1.0)


def test_neither_threads_nor_company_change_a_pyramid(pictures):
    expected = small_pyramid().fit(pictures)
    rows = expected.transform(pictures)
    for n_jobs, limit in ((1, 2), (3, 1), (-1, 2)):
        with threadpool_limits(limit):
            again = small_pyramid(n_jobs=n_jobs).fit(pictures)
            check_same(again.vocabulary_, expected.vocabulary_)
            check_same(again.transform(pictures), rows)
    check_same(expected.transform(pictures[::-1]), rows[::-1])
    check_same(expected.transform(pictures[3:4]), rows[3:4])


def test_the_vocabulary_depends_on_the_training_pictures_and_the_seed_alone(pictures):
    train, others = pictures[:4], pictures[4:]
    pyramid = small_pyramid().fit(train)
    before = pyramid.vocabulary_.copy()
    pyramid.transform(others)
    assert np.array_equal(pyramid.vocabulary_, before)
    assert np.array_equal(small_pyramid().fit(train, y=[1, 1, 2, 2]).vocabulary_, before)
    assert not np.array_equal(small_pyramid().fit(train + others).vocabulary_, before)
    assert not np.array_equal(small_pyramid(random_state=1).fit(train).vocabulary_, before)


def test_each_picture_contributes_its_share_of_the_descriptors_for_the_vocabulary(pictures, monkeypatch):
    given, plain = [], MiniBatchKMeans.fit
    monkeypatch.setattr(MiniBatchKMeans, "fit", lambda self, X: given.append(X) or plain(self, X))
    small_pyramid(n_words=3, n_descriptors=16).fit(pictures)
    shares = [min(3, len(dense_sift(picture)[0])) for picture in pictures]  # a sixth of sixteen, rounded up
    assert shares == [3, 3, 3, 3, 1, 3]
    parts = np.split(given[0], np.cumsum(shares)[:-1])
    for picture, part in zip(pictures, parts, strict=True):
        theirs = {row.tobytes() for row in dense_sift(picture)[0]}
        assert len({row.tobytes() for row in part} & theirs) == len(part)


def test_too_few_descriptors_for_the_words_are_an_error(pictures):
    with pytest.raises(ValueError, match="6 descriptors of 6 pictures cannot make 7 words"):
        small_pyramid(n_words=7, n_descriptors=6).fit(pictures)


def test_paths_and_the_arrays_read_from_them_are_the_same_pictures(tmp_path, pictures):
    paths = []
    for i, picture in enumerate(pictures):
        paths.append(tmp_path / f"{i}.png")
        Image.fromarray((255 * picture).astype(np.uint8)).save(paths[-1])
    expected = small_pyramid(max_side=60).fit_transform(paths)
    assert np.array_equal(small_pyramid(max_side=60).fit_transform(np.array(paths, dtype=str)), expected)
    check_same(small_pyramid().fit_transform([read_picture(path, 60) for path in paths]), expected)


def test_a_stack_of_pictures_of_one_size_will_do():
    stack = np.array([texture(seed) for seed in range(3)])
    check_same(small_pyramid().fit_transform(stack), small_pyramid().fit_transform(list(stack)))


def test_it_is_an_estimator_of_scikit_learn(pictures):
    pyramid = small_pyramid(n_words=5, levels=2)
    assert clone(pyramid).get_params() == pyramid.get_params()
    with pytest.raises(NotFittedError):
        pyramid.transform(pictures)
    frame = pyramid.set_output(transform="pandas").fit_transform(pictures)
    assert frame.columns[0] == "level0_row0_column0_word0"
    assert frame.columns[-1] == "level1_row1_column1_word4"
    assert not pyramid.__sklearn_tags__().input_tags.two_d_array


def test_it_works_in_a_pipeline_under_cross_validation(tmp_path):
    """Stripes that lie and stripes that stand, in folders of their own."""
    for name, axis in (("lying", 0), ("standing", 1)):
        (tmp_path / name).mkdir()
        for i in range(6):
            stripes = np.indices((48, 48))[axis] // 4 % 2
            noisy = 200 * stripes + np.random.default_rng(i).integers(0, 50, (48, 48))
            Image.fromarray(noisy.astype(np.uint8)).save(tmp_path / name / f"{i}.png")
    paths, y, names = list_pictures(tmp_path)
    assert names == ("lying", "standing")
    pipe = make_pipeline(small_pyramid(), KNeighborsClassifier(1))
    assert cross_val_score(pipe, paths, y, cv=3).tolist() == [1.0, 1.0, 1.0]


def test_an_invalid_batch_of_pictures_raises_an_error_with_the_reason(tmp_path, pictures):
    Image.fromarray(BITS).save(tmp_path / "fine.png")
    fine = tmp_path / "fine.png"
    holed = [*pictures[:2], np.where(pictures[2] > 0.5, np.nan, pictures[2])]
    bad = [
        (str(tmp_path), "list_pictures"),
        (fine, "put it in a list"),
        ([], "no pictures"),
        (3, "sequence"),
        ([fine, pictures[0]], r"X\[0\] is a path, X\[1\] an array"),
        ([pictures[0], pictures[1], str(fine)], r"X\[0\] is an array, X\[2\] a path"),
        (holed, r"X\[2\] has NaN"),
        (pictures[0], "put it in a list"),
        ([pictures[0], 255 * pictures[1]], r"X\[1\] has values"),
        ([None], r"X\[0\] must be"),
    ]
    fitted = small_pyramid().fit(pictures)
    for X, message in bad:
        for use in (small_pyramid().fit, fitted.transform):
            with pytest.raises(ValueError, match=message):
                use(X)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.jpg"):
        fitted.transform([fine, tmp_path / "nowhere.jpg"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_words", 0),
        ("levels", 0),
        ("levels", 2.5),
        ("step", -8),
        ("patch", 2),
        ("max_side", 0),
        ("n_descriptors", "many"),
        ("n_jobs", 0),
    ],
)
def test_invalid_parameters_raise_an_error_that_names_them(pictures, name, value):
    with pytest.raises(ValueError, match=name):
        small_pyramid(**{name: value}).fit(pictures)


# --- real pictures --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(data_dir):
    """Return training pictures of eight classes, test pictures of those, and pictures of six others, as pyramids."""
    paths, y, _ = list_pictures(data_dir / "caltech101_images")
    files = np.array([str(path) for path in paths])

    def rows(classes, start, stop):
        return np.concatenate([np.flatnonzero(y == c)[start:stop] for c in classes])

    train, test, unknown = rows(range(0, 16, 2), 0, 20), rows(range(0, 16, 2), 20, 30), rows(range(1, 13, 2), 0, 10)
    return files, y, train, test, unknown


@pytest.mark.slow
def test_real_objects_are_distinguished_by_their_pyramids(real):
    files, y, train, test, _ = real
    pyramid = SpatialPyramid(100, n_descriptors=20_000, random_state=0)
    X, X_test = pyramid.fit_transform(files[train]), pyramid.transform(files[test])
    for clf in (LinearSVC(C=10.0), SRCClassifier()):
        assert clf.fit(X, y[train]).score(X_test, y[test]) > 0.6, clf  # chance: 0.125


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::srosr.exceptions.SROSRWarning")
def test_real_unknown_samples_score_higher_from_the_folder_to_the_decision(real):
    files, y, train, test, unknown = real
    train, test = (rows[np.isin(y[rows], range(0, 12, 2))] for rows in (train, test))
    pyramid = SpatialPyramid(100, n_descriptors=20_000, random_state=0)
    clf = SROSRClassifier(n_repeats=5, random_state=0).fit(pyramid.fit_transform(files[train]), y[train])
    scores = clf.unknown_score(pyramid.transform(files[np.concatenate([test, unknown])]))
    y_true = np.concatenate([y[test], np.full(len(unknown), -1)])
    assert open_set_auroc(y_true, scores, unknown_label=-1) > 0.65


# --- the page and the benchmark -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::srosr.exceptions.SROSRWarning")
def test_the_python_of_the_page_runs_as_printed_on_a_folder_of_pictures(tmp_path):
    def save(seed, path, axis, width):
        stripes = (np.indices((80, 96))[axis] + seed) // width % 2
        noisy = 150 * stripes + np.random.default_rng(seed).integers(0, 100, stripes.shape)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noisy.astype(np.uint8)).save(path)

    kinds = {"lying": (0, 4), "standing": (1, 4), "wide": (0, 12)}
    for name, (axis, width) in kinds.items():
        for seed in range(12):
            save(seed, tmp_path / "train" / name / f"{seed}.png", axis, width)
        save(100, tmp_path / "new" / f"{name}.png", axis, width)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "features.md").read_text(), re.DOTALL)
    program = "\n".join([*blocks, "assert np.array_equal(pyramid.transform(new), X)"])
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True
    )
    answers = dict(line.split()[:2] for line in done.stdout.splitlines())
    assert set(answers) == {f"{name}.png" for name in kinds}
    assert all(answer in (name.removesuffix(".png"), "unknown") for name, answer in answers.items()), answers


@pytest.mark.slow
def test_the_benchmark_compares_our_pyramids_with_ready_ones(data_dir, monkeypatch):
    monkeypatch.setenv("SROSR_DATA_DIR", str(data_dir))
    result = CliRunner().invoke(benchmark.main, ["--splits", "2", "--classes", "2", "--words", "10", "--train", "20"])
    assert result.exit_code == 0, result.output
    rows = [line.split("|")[2:4] for line in result.output.splitlines() if line.startswith(("| linear SVM", "| SRC"))]
    assert len(rows) == 2
    assert all(float(cell.split("±")[0]) > 70 for row in rows for cell in row), rows


def test_the_benchmark_says_what_is_missing_without_data(monkeypatch):
    monkeypatch.delenv("SROSR_DATA_DIR", raising=False)
    result = CliRunner().invoke(benchmark.main, [])
    assert result.exit_code != 0
    assert "SROSR_DATA_DIR is not set" in result.output
