"""Model files come back bit for bit, and whatever is wrong with one is a ModelFileError and nothing else."""

import hashlib
import io
import json
import math
import os
import pickle
import stat
import subprocess
import sys
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors
from scale import examples

from srosr import __version__
from srosr._support import atomic_files
from srosr.exceptions import ModelFileError
from srosr.model_files import file_format as modelfile
from srosr.model_files.file_format import FORMAT_VERSION, ModelState, raise_as_model_file_error, read_model, write_model

STORED = Path(__file__).parent / "model-files"
FEW = settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
MANY = settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
BEGINNING = b'{"__metadata__":{"format":"srosr","sha256":"'


def small_state() -> ModelState:
    """Return a state with a bit of everything; the stored files contain it."""
    return ModelState(
        "Example",
        {"alpha": 0.1, "n": 3, "on": True, "none": None, "name": "é\ud800", "nested": {"a": [1, 2.5, "x"]}},
        {
            "atoms": np.array([[0.5, -0.0], [np.nan, np.inf]]),
            "flags": np.array([True, False, True]),
            "classes": np.array(["cat", "Wörter"]),
            "objects": np.array(["a", "b\0"], dtype=object),
        },
    )


def assert_same(a: np.ndarray, b: np.ndarray) -> None:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    if a.dtype == object:
        assert [(type(x), x) for x in a.flat] == [(type(x), x) for x in b.flat]
    else:
        assert a.tobytes() == b.tobytes()


def assert_same_state(a: ModelState, b: ModelState) -> None:
    assert (a.kind, a.version) == (b.kind, b.version)
    assert repr(a.settings) == repr(b.settings)  # 1 is not 1.0 is not True, and -0.0 is not 0.0
    assert set(a.arrays) == set(b.arrays)
    for name in a.arrays:
        assert_same(a.arrays[name], b.arrays[name])


def sealed(header: bytes, body: bytes) -> bytes:
    """Return the bytes of a file with a valid digest, whatever its content."""
    at = 8 + len(BEGINNING)
    data = len(header).to_bytes(8, "little") + header + body
    assert data[8:at] == BEGINNING
    data = data[:at] + b"0" * 64 + data[at + 64 :]
    return data[:at] + hashlib.sha256(data).hexdigest().encode() + data[at + 64 :]


def split(data: bytes) -> tuple[dict, bytes]:
    end = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:end]), data[end:]


def forged(header: dict, body: bytes) -> bytes:
    return sealed(json.dumps(header, separators=(",", ":")).encode(), body)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def small(folder) -> bytes:
    write_model(folder / "small", small_state())
    return (folder / "small").read_bytes()


@pytest.fixture
def error_message(tmp_path):
    """Return a function that writes bytes to a file and returns the error message for it."""

    def check(data: bytes) -> str:
        path = tmp_path / "given"
        path.write_bytes(data)
        with pytest.raises(ModelFileError) as caught:
            read_model(path)
        message = str(caught.value)
        assert message.startswith(repr(str(path))), "the message names the file"
        assert message.endswith((".", "?")) and message.isprintable()
        return message.removeprefix(repr(str(path)))

    return check


# -- round trips ---------------------------------------------------------------------------------------------

any_text = st.text(st.characters(exclude_categories=()), max_size=8)
floats = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers() | floats | any_text
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4), max_leaves=12
)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
dtypes = hnp.floating_dtypes() | hnp.integer_dtypes() | hnp.unsigned_integer_dtypes() | hnp.boolean_dtypes()
text_dtypes = hnp.unicode_string_dtypes(max_len=5) | hnp.byte_string_dtypes(max_len=5)
arrays = (
    hnp.arrays(dtypes | text_dtypes, shapes)
    | hnp.arrays(np.dtype(object), shapes, elements=scalars, fill=st.nothing())
    | hnp.arrays(np.dtype(object), shapes, elements=st.binary(max_size=4), fill=st.nothing())
)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_./-]{0,20}", fullmatch=True)
states = st.builds(
    ModelState,
    kind=st.from_regex(r"[A-Za-z_][A-Za-z0-9_.]{0,20}", fullmatch=True),
    settings=st.dictionaries(any_text, json_values, max_size=4),
    arrays=st.dictionaries(names, arrays, max_size=4),
)


@MANY
@given(states)
def test_a_state_comes_back_bit_for_bit(folder, state):
    path = folder / "trip"
    write_model(path, state)
    again = read_model(path)
    native = {n: a.astype(a.dtype.newbyteorder("=")) for n, a in state.arrays.items()}
    assert_same_state(again, replace(state, arrays=native))
    assert again.written_by == __version__
    for array in again.arrays.values():
        assert array.flags.writeable and array.flags.c_contiguous and array.flags.aligned
    before = path.read_bytes()
    write_model(path, again)
    assert path.read_bytes() == before, "equal states give equal bytes"


@FEW
@given(states)
def test_the_safetensors_library_reads_a_model_file(folder, state):
    path = folder / "library"
    write_model(path, state)
    tensors = load_safetensors(path.read_bytes())
    assert set(tensors) == set(state.arrays)
    for name, array in state.arrays.items():
        if array.dtype.kind in "fiub":
            assert_same(tensors[name], array.astype(array.dtype.newbyteorder("=")))


def test_settings_keep_their_order_and_types(tmp_path):
    values = {"z": 1, "a": 1.0, "m": True, "zero": -0.0, "tiny": 5e-324, "big": 2**1000, "tenth": 0.1}
    write_model(tmp_path / "m", ModelState("K", values, {}))
    again = read_model(tmp_path / "m").settings
    assert list(again) == list(values)
    assert repr(again) == repr(values)


def test_numpy_scalars_among_the_settings_become_plain_ones(tmp_path):
    values = {"f": np.float64(0.1), "i": np.int32(3), "b": np.bool_(True), "s": np.str_("x")}
    write_model(tmp_path / "m", ModelState("K", values, {}))
    assert repr(read_model(tmp_path / "m").settings) == "{'f': 0.1, 'i': 3, 'b': True, 's': 'x'}"


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10)[::-2],
        np.arange(3, dtype=">i4"),
        np.array(["ab", "c"], dtype=">U4"),
        np.array("unknown"),
        np.array(b"\x00\xff"),
        np.array(np.nan),
        np.empty((0, 5)),
        np.empty((7, 0), dtype="?"),
        np.empty(0, dtype="<U7"),
        np.array([], dtype=object),
        np.array([2**70, -1], dtype=object),
        np.array([True, False], dtype=object),
        np.array([0.1, -0.0], dtype=object),
        np.array([np.str_("a"), "b"], dtype=object),
        np.arange(4).view(np.matrix),
        np.array([2, 0, 1], dtype=np.uint8).view(bool),
    ],
    ids=repr,
)
def test_unusual_arrays_come_back_in_native_order(tmp_path, array):
    write_model(tmp_path / "m", ModelState("K", {}, {"a": array}))
    again = read_model(tmp_path / "m").arrays["a"]
    assert again.dtype == array.dtype.newbyteorder("=") and again.shape == array.shape
    np.testing.assert_array_equal(again, np.asarray(array))


def test_float_bits_survive_even_where_numbers_do_not(tmp_path):
    bits = np.array([0x7FF8DEADBEEF0001, 0x7FF0000000000001, 0x8000000000000000, 1], dtype=np.uint64)
    write_model(tmp_path / "m", ModelState("K", {}, {"a": bits.view(np.float64)}))
    np.testing.assert_array_equal(read_model(tmp_path / "m").arrays["a"].view(np.uint64), bits)


def test_a_large_array_is_written_in_parts_and_comes_back(tmp_path, monkeypatch):
    monkeypatch.setattr(modelfile, "_CHUNK", 1000)
    array = np.random.default_rng(0).normal(size=(100, 33))
    write_model(tmp_path / "m", ModelState("K", {}, {"a": array}))
    assert_same(read_model(tmp_path / "m").arrays["a"], array)


def test_another_process_reads_the_same_bits(tmp_path):
    state = small_state()
    write_model(tmp_path / "m", state)
    code = (
        "import sys, hashlib; from srosr.model_files.file_format import read_model; s = read_model(sys.argv[1])\n"
        "assert 'pickle' not in s.settings\n"
        "for n, a in sorted(s.arrays.items()): print(n, a.dtype, a.shape, repr(a.tolist()) if a.dtype == object else "
        "hashlib.sha256(a.tobytes()).hexdigest())\n"
        "print(ascii(s.settings))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m")], capture_output=True, text=True, check=True, timeout=300
    )
    expected = [
        f"{n} {a.dtype} {a.shape} "
        + (repr(a.tolist()) if a.dtype == object else hashlib.sha256(a.tobytes()).hexdigest())
        for n, a in sorted(state.arrays.items())
    ]
    assert out.stdout.splitlines() == [*expected, ascii(state.settings)]


# -- what cannot be stored -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"a": {"b": [1, math.nan]}}, r"settings\['a'\]\['b'\]\[1\] is nan"),
        ({"a": math.inf}, r"numpy.array\(inf\)"),
        ({"a": (1, 2)}, "type tuple"),
        ({"a": {1: 2}}, "the key 1; keys must be str"),
        ({"a": object()}, "type object"),
        ({"a": 1j}, "type complex"),
        ({"a": 2**1024}, "1025 bits"),
        ({"a": b"x"}, "type bytes"),
        ({"a": "x" * 2**22}, "into arrays"),
        ([], "must be a dict"),
    ],
)
def test_a_setting_that_json_cannot_express_raises_an_error(tmp_path, values, says):
    with pytest.raises(ValueError, match=says):
        write_model(tmp_path / "m", ModelState("K", values, {}))
    assert not list(tmp_path.iterdir())


def test_settings_nested_without_end_raise_an_error(tmp_path):
    endless: list = []
    endless.append(endless)
    with pytest.raises(ValueError, match="levels deep"):
        write_model(tmp_path / "m", ModelState("K", {"a": endless}, {}))


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros(2, dtype=complex), "dtype complex128"),
        (np.zeros(2, dtype="M8[s]"), "dtype datetime64"),
        (np.zeros(2, dtype=np.longdouble), "dtype "),
        (np.zeros(2, dtype=[("a", "f8")]), "dtype "),
        (np.ma.masked_array([1, 2], [0, 1]), "without a mask"),
        ([1, 2], "NumPy array"),
        (np.array([object()]), "type object"),
        (np.array(["a", b"b"], dtype=object), "type bytes"),
        (np.array([{}, []], dtype=object), "type dict"),
        (np.array([math.nan], dtype=object), "is nan"),
        (np.empty((2**30, 0)), "is empty"),
        (np.array([2**31 - 1], dtype=np.uint32).view("U1"), "do not exist"),
    ],
)
def test_an_array_that_cannot_be_restored_raises_an_error(tmp_path, array, says):
    with pytest.raises(ValueError, match=says) as caught:
        write_model(tmp_path / "m", ModelState("K", {}, {"it": array}))
    assert "arrays['it']" in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", "__metadata__", "a b", "é", "../../x y", "1a", 3, "a" * 129, "a\n"])
def test_names_are_plain(tmp_path, name):
    with pytest.raises(ValueError, match="name must be"):
        write_model(tmp_path / "m", ModelState("K", {}, {name: np.zeros(1)}))
    with pytest.raises(ValueError, match="kind must be"):
        write_model(tmp_path / "m", ModelState(f"{name}-", {}, {}))


def test_only_the_current_version_is_written(tmp_path):
    with pytest.raises(ValueError, match="version must be"):
        write_model(tmp_path / "m", replace(small_state(), version=0))


# -- damage --------------------------------------------------------------------------------------------------


def assert_found(path: Path, whole: bytes, changes) -> None:
    """Check that each change of a single byte makes the file invalid."""
    path.write_bytes(whole)
    missed = []
    with open(path, "r+b", buffering=0) as file:
        for i, byte in changes:
            file.seek(i)
            file.write(bytes([byte]))
            try:
                read_model(path)
            except ModelFileError:
                pass
            else:
                missed.append((i, byte))
            file.seek(i)
            file.write(whole[i : i + 1])
    assert not missed
    read_model(path)


def test_every_flipped_bit_is_found(tmp_path, small):
    assert_found(tmp_path / "m", small, ((i, small[i] ^ 1 << bit) for i in range(len(small)) for bit in range(8)))


def test_a_change_that_a_parser_would_not_mind_is_found(tmp_path, small):
    # White space for white space, a digit for a digit.
    end = 8 + int.from_bytes(small[:8], "little")
    changes = ((i, byte) for i in range(8, end) for byte in b" \t\n0" if byte != small[i])
    assert_found(tmp_path / "m", small, changes)


def test_a_truncated_file_raises_an_error(small, error_message):
    for length in range(len(small)):
        error_message(small[:length])
    assert "is damaged" in error_message(small[:-1])
    assert "is damaged" in error_message(small[:60])
    assert "is empty" in error_message(b"")


@pytest.mark.parametrize(
    "tail", [b"\0", b" ", b"\n", b"garbage" * 100], ids=["zero byte", "space", "line end", "garbage"]
)
def test_a_file_with_something_appended_raises_an_error(small, error_message, tail):
    assert "SHA-256" in error_message(small + tail)


# -- files of others -----------------------------------------------------------------------------------------


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", "b")
    return out.getvalue()


def npy() -> bytes:
    out = io.BytesIO()
    np.save(out, np.zeros(3))
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (pickle.dumps({"a": 1}), "a pickle"),
        (pickle.dumps(list(range(100)), protocol=2), "a pickle"),
        (zipped(), "a zip archive"),
        (npy(), ".npy"),
        (save_safetensors({"a": np.zeros(3)}), "safetensors file of another program"),
        (save_safetensors({"a": np.zeros(3)}, {"format": "pt"}), "safetensors file of another program"),
        (b'{"a": 1}' * 20, "JSON"),
        (b"\x1f\x8b" + bytes(100), "gzip"),
        (b"hello, world" * 20, "not a srosr model file;"),
        (bytes(1000), "not a srosr model file;"),
        (b"abc", "not a srosr model file;"),
    ],
    # By name: the bytes of a zip archive hold the time it was made, and all workers of a run must collect the same.
    ids=[
        "pickle",
        "old pickle",
        "zip",
        "npy",
        "safetensors",
        "safetensors of torch",
        "JSON",
        "gzip",
        "text",
        "zeros",
        "three bytes",
    ],
)
def test_a_file_of_another_program_is_named(error_message, data, what):
    assert what in error_message(data)


class Bomb:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (Path.touch, (Path(self.marker),))


def test_nothing_is_unpickled(tmp_path, small, error_message):
    marker = tmp_path / "marker"
    bomb = pickle.dumps(Bomb(str(marker)))
    error_message(bomb)
    header, body = split(small)
    header["bomb"] = {"dtype": "U8", "shape": [len(bomb)], "data_offsets": [len(body), len(body) + len(bomb)]}
    path = tmp_path / "m"
    path.write_bytes(forged(header, body + bomb))
    assert read_model(path).arrays["bomb"].tobytes() == bomb
    model = json.loads(header["__metadata__"]["model"])
    model["encodings"]["bomb"] = {"as": "objects", "shape": [1]}
    header["__metadata__"]["model"] = json.dumps(model)
    error_message(forged(header, body + bomb))
    assert not marker.exists()
    pickle.loads(bomb)
    assert marker.exists(), "the bomb is one"


@MANY
@given(st.binary(max_size=300))
def test_random_bytes_raise_an_error(folder, data):
    path = folder / "random"
    path.write_bytes(data)
    with pytest.raises(ModelFileError):
        read_model(path)


@MANY
@given(st.binary(max_size=100), st.binary(max_size=40), st.integers(0, 2**64 - 1) | st.none())
def test_random_bytes_after_a_valid_beginning_raise_an_error(folder, middle, body, length):
    header = BEGINNING + b"0" * 64 + middle
    data = sealed(header, body)
    if length is not None:
        data = length.to_bytes(8, "little") + data[8:]
    path = folder / "random"
    path.write_bytes(data)
    with pytest.raises(ModelFileError):
        read_model(path)


# -- files made to do harm: their digest is right ------------------------------------------------------------


def test_a_forged_file_is_read_if_nothing_is_wrong_with_it(tmp_path, small):
    # Otherwise the tests below would test nothing.
    header, body = split(small)
    (tmp_path / "m").write_bytes(forged(header, body))
    assert_same_state(read_model(tmp_path / "m"), small_state())


def entry(**changes):
    return {"dtype": "F64", "shape": [2, 2], "data_offsets": [0, 32], **changes}


@pytest.mark.parametrize(
    "atoms",
    [
        entry(shape=[2**40]),
        entry(shape=[2**40], data_offsets=[0, 2**43]),
        entry(shape=[2**63], data_offsets=[0, 2**66]),
        entry(shape=[2**32, 2**32, 0], data_offsets=[0, 0]),
        entry(shape=[2**62, 0], data_offsets=[0, 0]),
        entry(shape=[2**32, 2**32]),  # the product is 0 in 64 bits
        entry(shape=[2**61 + 4]),  # and this one's bytes are 32
        entry(shape=[-2, -2]),
        entry(shape=[-1]),
        entry(shape=[4.0]),
        entry(shape=[True, 4]),
        entry(shape=["4"]),
        entry(shape="22"),
        entry(shape=None),
        entry(shape={"0": 4}),
        entry(shape=[1] * 33 + [4]),
        entry(shape=[1] * 100_000),
        entry(shape=[3]),
        entry(shape=[10**400]),
        entry(data_offsets=[0, 31]),
        entry(data_offsets=[32, 0]),
        entry(data_offsets=[8, 40]),
        entry(data_offsets=[-32, 0]),
        entry(data_offsets=[2**63, 2**63 + 32]),
        entry(data_offsets=[2**64, 2**64 + 32]),
        entry(data_offsets=[0]),
        entry(data_offsets=[0, 32, 64]),
        entry(data_offsets=[0.0, 32.0]),
        entry(data_offsets=None),
        entry(dtype="F65"),
        entry(dtype="C64", shape=[4]),
        entry(dtype="F4"),
        entry(dtype="BF16", shape=[16]),
        entry(dtype="object"),
        entry(dtype=["F64"]),
        entry(dtype=None),
        entry(more=1),
        {"dtype": "F64"},
        [],
        None,
        3,
    ],
    ids=lambda value: repr(value)[:60],
)
def test_an_array_that_does_not_fit_the_file_raises_an_error(small, error_message, atoms):
    header, body = split(small)
    header["atoms"] = atoms
    tracemalloc.start()
    message = error_message(forged(header, body))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "array" in message
    assert peak < 2**25


def test_overlapping_missing_and_superfluous_bytes_raise_an_error(small, error_message):
    header, body = split(small)
    header["twin"] = header["atoms"]
    assert "overlap" in error_message(forged(header, body))
    del header["twin"]
    assert "bytes" in error_message(forged(header, body + b"\0"))
    assert "bytes" in error_message(forged(header, body[:-1]))
    del header["atoms"]
    assert "gaps" in error_message(forged(header, body))


@pytest.mark.parametrize("name", ["", "a b", "../é", "x" * 129, "\ud800", "a\nb", "a\0"])
def test_an_invalid_array_name_raises_an_error(small, error_message, name):
    header, body = split(small)
    header[name] = {"dtype": "U8", "shape": [0], "data_offsets": [len(body), len(body)]}
    assert "name" in error_message(forged(header, body))


def test_truth_values_are_zero_or_one(small, error_message):
    header, body = split(small)
    begin, end = header["flags"]["data_offsets"]
    assert "truth values" in error_message(forged(header, body[:begin] + b"\x02" * (end - begin) + body[end:]))


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (b'","x":"y"}}', "format version"),
        (b'","format_version":"01"}}', "format version"),
        (b'","format_version":"-1"}}', "format version"),
        (b'","format_version":1}}', "texts"),
        (b'","format_version":"1"}}', "metadata"),
        (b'","format_version":"1","format_version":"1"}}', "twice"),
        (b'","format":"srosr","format_version":"1"}}', "twice"),
        (b'","format_version":"1"},"__metadata__":{}}', "twice"),
        (b'","format_version":NaN}}', "NaN"),
        (b'","format_version":-Infinity}}', "Infinity"),
        (b'","format_version":1e999}}', "too large"),
        (b'","format_version":' + b"9" * 10_000 + b"}}", "not JSON"),
        (b'","format_version":"\xff"}}', "UTF-8"),
        (b'","format_version":"\xed\xa0\x80"}}', "UTF-8"),
        (b'","format_version":"1"}', "not JSON"),
        (b'","format_version":"1"}}}', "not JSON"),
        (b'","format_version":"1"}}\0', "not JSON"),
        (b'","format_version":' + b"[" * 1_000_000, "deep"),
        (b'","format_version":' + b'{"a":' * 500_000, "deep"),
        (b'","format_version":' + b"[" * 500_000 + b"]" * 500_000 + b"}}", "deep"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_header_that_is_not_strict_json_raises_an_error(error_message, after, says):
    assert says in error_message(sealed(BEGINNING + b"0" * 64 + after, b""))


def test_a_header_beyond_the_limit_raises_an_error_unread(error_message):
    header = BEGINNING + b"0" * 64 + b'"' + b" " * 2**22
    assert "is damaged: its header" in error_message(sealed(header, b""))


def test_a_header_longer_than_the_file_raises_an_error(error_message):
    data = sealed(BEGINNING + b"0" * 64 + b'","format_version":"1"}}', b"")
    assert "is damaged: its header" in error_message((2**20).to_bytes(8, "little") + data[8:])


@pytest.mark.parametrize("key", ["sha256", "written_by"])
def test_superfluous_text_in_the_metadata_raises_an_error(small, error_message, key):
    header, body = split(small)
    header["__metadata__"][key] += "?" * 100
    assert "not a valid model file" in error_message(forged(header, body))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("[]", "kind, settings and encodings"),
        ("null", "kind, settings and encodings"),
        ('{"kind":"K","settings":{}}', "kind, settings and encodings"),
        ('{"kind":"K","settings":{},"encodings":{},"more":1}', "kind, settings and encodings"),
        ('{"kind":3,"settings":{},"encodings":{}}', "kind is not a name"),
        ('{"kind":"os.system","settings":[],"encodings":{}}', "objects"),
        ('{"kind":"a b","settings":{},"encodings":{}}', "kind is not a name"),
        ('{"kind":"K","settings":{},"encodings":[]}', "objects"),
        ('{"kind":"K","settings":{"a":1,"a":2},"encodings":{}}', "twice"),
        ('{"kind":"K","settings":{"a":NaN},"encodings":{}}', "NaN"),
        ('{"kind":"K","settings":{"a":1e400},"encodings":{}}', "too large"),
        ('{"kind":"K","settings":{"a":' + "9" * 400 + '},"encodings":{}}', "bits"),
        ('{"kind":"K","settings":{"a":' + "[" * 40 + "]" * 40 + '},"encodings":{}}', "deep"),
        ('{"kind":"K","settings":{"a":' + "[" * 10**5 + "]" * 10**5 + '},"encodings":{}}', "deep"),
        ('{"kind":"K","settings":{},"encodings":{"nobody":{"as":"text"}}}', "which does not exist"),
    ],
    ids=lambda value: value[:60],
)
def test_a_model_text_that_srosr_would_not_write_raises_an_error(small, error_message, text, says):
    header, body = split(small)
    header["__metadata__"]["model"] = text
    assert says in error_message(forged(header, body))


@pytest.mark.parametrize(
    "encoding",
    [
        None,
        "text",
        {},
        {"as": "pickle"},
        {"as": ["text"]},
        {"as": "text"},
        {"as": "bytes", "shape": [2]},
        {"as": "objects"},
        {"as": "objects", "shape": [3]},
        {"as": "objects", "shape": [2**62, 0]},
        {"as": "objects", "shape": [-1, -2]},
        {"as": "objects", "shape": None},
        {"as": "objects", "shape": [1] * 40 + [2]},
        {"as": "objects", "shape": [True, 2]},
        {"as": "bytes objects", "shape": [2]},
    ],
    ids=repr,
)
def test_an_encoding_that_does_not_fit_raises_an_error(small, error_message, encoding):
    header, body = split(small)
    model = json.loads(header["__metadata__"]["model"])
    # A list of objects in JSON, one of which is no byte string.
    begin, end = header["objects"]["data_offsets"]
    content = b'["a","\\u1000"]'.ljust(end - begin)
    body = body[:begin] + content + body[end:]
    if encoding is not None:
        model["encodings"]["objects"] = encoding
    else:
        model["encodings"]["atoms"] = {"as": "text"}
    header["__metadata__"]["model"] = json.dumps(model)
    assert "array" in error_message(forged(header, body))


@pytest.mark.parametrize(
    "content",
    [b"[[],[]]", b'["a"]', b"{}", b"[NaN,1]", b"[1e999,1]", b"[" * 10**5, b"\xff", b"", b'["a",{"a":1,"a":2}]'],
)
def test_invalid_objects_raise_an_error(tmp_path, error_message, content):
    write_model(tmp_path / "m", ModelState("K", {}, {"o": np.array(["a", "b"], dtype=object)}))
    header, _ = split((tmp_path / "m").read_bytes())
    header["o"].update(shape=[len(content)], data_offsets=[0, len(content)])
    assert "array 'o'" in error_message(forged(header, content))


def test_text_of_characters_that_do_not_exist_raises_an_error(small, error_message):
    header, body = split(small)
    begin = header["classes"]["data_offsets"][0]
    assert "characters" in error_message(forged(header, body[:begin] + b"\xff\xff\xff\x7f" + body[begin + 4 :]))


hostile = st.one_of(
    json_values,
    st.sampled_from([-1, 0, 1, 31, 33, 2**31, 2**40, 2**61, 2**63 - 1, 2**63, 2**64, 10**50, 0.5, "F64", "U8", "I8"]),
    st.lists(st.sampled_from([0, 1, 2, 4, 8, 32, -1, 2**20, 2**40, 2**63, 2**64]), max_size=4),
)


@MANY
@given(st.data())
def test_a_mutated_header_is_read_or_raises_an_error(folder, small, data):
    """Whatever the header says, the outcome is a state or a ModelFileError, and memory is the file's size."""
    header, body = split(small)
    model = json.loads(header["__metadata__"]["model"])
    for _ in range(data.draw(st.integers(1, 3))):
        entries = [header[name] for name in small_state().arrays]
        place = data.draw(st.sampled_from([header, model, model["encodings"], *entries]))
        if not isinstance(place, dict):
            continue
        key = data.draw(st.sampled_from([*sorted(place), "new"]))
        if key == "__metadata__":
            continue
        if data.draw(st.booleans()):
            place.pop(key, None)
        else:
            place[key] = data.draw(hostile)
        if model.keys() != {"kind", "settings", "encodings"} or header.keys() != split(small)[0].keys():
            break
        if not isinstance(model["encodings"], dict) or not all(isinstance(v, dict) for v in header.values()):
            break
    header["__metadata__"]["model"] = json.dumps(model)
    path = folder / "mutated"
    path.write_bytes(forged(header, body))
    tracemalloc.start()
    try:
        assert isinstance(read_model(path), ModelState)
    except ModelFileError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 2**24


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space as Linux does")
def test_claims_of_a_terabyte_allocate_nothing(tmp_path, small):
    header, body = split(small)
    header["atoms"] = entry(shape=[2**37], data_offsets=[0, 2**40])
    (tmp_path / "claim").write_bytes(forged(header, body))
    (tmp_path / "header").write_bytes((2**40).to_bytes(8, "little") + small[8:])
    (tmp_path / "foreign").write_bytes((2**62).to_bytes(8, "little") + b"{}" * 100)
    # Two that do take the space, as files with holes.
    for name, start in [("holes", small), ("foreign-holes", save_safetensors({"a": np.zeros(3)}))]:
        with open(tmp_path / name, "wb") as file:
            file.write(start)
            try:
                file.truncate(2**40)
            except OSError:
                continue
    code = """
import resource, sys
from pathlib import Path
from srosr.exceptions import ModelFileError
from srosr.model_files.file_format import read_model
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**27, used + 2**27))
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        read_model(path)
    except ModelFileError as error:
        print(path.name)
"""
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert out.stderr == ""
    assert out.stdout.split() == sorted(p.name for p in tmp_path.iterdir())


def test_an_unforeseen_error_becomes_a_model_file_error(monkeypatch, small, error_message):
    for error in (MemoryError(), KeyError("a\nb"), OverflowError("x"), RecursionError("x" * 1000), AssertionError()):

        def fails(*_, error=error):
            raise error

        monkeypatch.setattr(modelfile.safetensors, "deserialize", fails)
        assert type(error).__name__ in error_message(small)


def test_ctrl_c_while_reading_stays_one(monkeypatch, folder, small):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(modelfile.safetensors, "deserialize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_model(folder / "small")


# -- versions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, 7, 123456789])
def test_a_newer_file_asks_for_a_newer_srosr(small, error_message, version):
    header, _ = split(small)
    header["__metadata__"] |= {"format_version": str(version), "new": "key"}
    header["future"] = {"what": "ever"}
    message = error_message(forged(header, b"of another layout"))
    assert f"version {version}" in message and f"up to {FORMAT_VERSION}" in message and "upgrade srosr" in message


def test_older_files_are_upgraded_one_version_at_a_time(monkeypatch, tmp_path, small):
    header, body = split(small)
    header["__metadata__"] |= {"format_version": "0", "written_by": "0.0.1"}
    (tmp_path / "old").write_bytes(forged(header, body))
    seen = []

    def first(state):
        seen.append(state.version)
        return replace(state, settings=state.settings | {"beta": 1})

    def second(state):
        seen.append(state.version)
        return replace(state, settings=state.settings | {"beta": state.settings["beta"] + 1})

    monkeypatch.setattr(modelfile, "FORMAT_VERSION", 2)
    monkeypatch.setattr(modelfile, "UPGRADES", {0: first, 1: second})
    state = read_model(tmp_path / "old")
    assert seen == [0, 1]
    assert (state.version, state.written_by, state.settings["beta"]) == (2, "0.0.1", 2)


def test_an_upgrade_that_fails_blames_the_file(monkeypatch, small, error_message):
    header, body = split(small)
    header["__metadata__"]["format_version"] = "0"
    assert "version 0" in error_message(forged(header, body))
    monkeypatch.setattr(modelfile, "UPGRADES", {0: lambda state: state.settings["missing"]})
    assert "KeyError: 'missing'" in error_message(forged(header, body))


def test_there_is_an_upgrade_and_a_stored_file_for_every_version():
    oldest = FORMAT_VERSION  # older ones were never released
    assert sorted(modelfile.UPGRADES) == list(range(oldest, FORMAT_VERSION))
    stored = [f"version-{version}.safetensors" for version in range(oldest, FORMAT_VERSION + 1)]
    assert sorted(path.name for path in STORED.iterdir()) == stored


@pytest.mark.parametrize("version", range(FORMAT_VERSION, FORMAT_VERSION + 1))
def test_the_stored_file_of_every_version_is_read(version):
    state = read_model(STORED / f"version-{version}.safetensors")
    assert_same_state(state, small_state())
    assert state.written_by == "0.1.0"


def test_the_current_version_is_written_as_it_was(monkeypatch, tmp_path):
    monkeypatch.setattr(modelfile, "__version__", "0.1.0")
    write_model(tmp_path / "m", small_state())
    assert (tmp_path / "m").read_bytes() == (STORED / f"version-{FORMAT_VERSION}.safetensors").read_bytes(), (
        "what is written has changed: raise FORMAT_VERSION, write an upgrade, and store a file of the new version"
    )


# -- writing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["replace", "fsync", "chmod"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt(), MemoryError()], ids=repr)
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(monkeypatch, tmp_path, function, error):
    path = tmp_path / "m"
    write_model(path, small_state())
    before = path.read_bytes()

    def fails(*_):
        raise error

    monkeypatch.setattr(modelfile.os, function, fails)
    with pytest.raises(type(error)):
        write_model(path, ModelState("Other", {}, {"a": np.zeros(1000)}))
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m"]


def test_a_disk_that_fills_up_half_way_leaves_the_old_file(monkeypatch, tmp_path):
    path = tmp_path / "m"
    write_model(path, small_state())
    before = path.read_bytes()
    parts = modelfile._parts

    def until_full(header, tensors):
        yield next(parts(header, tensors))
        raise OSError("no space left")

    monkeypatch.setattr(modelfile, "_parts", until_full)
    for target in (path, tmp_path / "new"):
        with pytest.raises(OSError, match="no space"):
            write_model(target, small_state())
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m"]


def test_a_file_of_the_temporary_name_is_left_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(atomic_files.secrets, "token_hex", lambda n: "x")
    other = tmp_path / ".m.x.tmp"
    other.write_text("mine")
    with pytest.raises(FileExistsError):
        write_model(tmp_path / "m", small_state())
    assert other.read_text() == "mine" and os.listdir(tmp_path) == [other.name]


def test_the_old_file_is_there_until_the_new_one_is_complete(monkeypatch, tmp_path):
    path = tmp_path / "m"
    write_model(path, ModelState("Old", {}, {}))
    replaced = []

    def look(source, target):
        assert read_model(path).kind == "Old"
        assert read_model(source).kind == "Example"
        assert os.path.dirname(source) == os.path.dirname(target)
        replaced.append(os.rename(source, target))

    monkeypatch.setattr(modelfile.os, "replace", look)
    write_model(path, small_state())
    assert replaced and read_model(path).kind == "Example"


def test_an_array_that_changes_meanwhile_gives_a_whole_file(monkeypatch, tmp_path):
    array = np.zeros(100)
    parts = modelfile._parts

    def changing(header, tensors):
        for part in parts(header, tensors):
            yield part
            array[:] += 1

    monkeypatch.setattr(modelfile, "_parts", changing)
    write_model(tmp_path / "m", ModelState("K", {}, {"a": array}))
    assert read_model(tmp_path / "m").arrays["a"].shape == (100,)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_permissions_are_those_of_open(tmp_path):
    old = os.umask(0o027)
    try:
        write_model(tmp_path / "m", small_state())
        (tmp_path / "plain").write_bytes(b"")
        assert (tmp_path / "m").stat().st_mode == (tmp_path / "plain").stat().st_mode
        for mode in (0o600, 0o666):
            (tmp_path / "m").chmod(mode)
            write_model(tmp_path / "m", small_state())
            assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == mode, "an old file keeps its own"
    finally:
        os.umask(old)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_read_only_file_stays(tmp_path, monkeypatch):
    write_model(tmp_path / "m", small_state())
    monkeypatch.setattr(modelfile.os, "access", lambda path, mode: False)  # root may write everything
    with pytest.raises(PermissionError, match="read-only"):
        write_model(tmp_path / "m", ModelState("Other", {}, {}))
    assert read_model(tmp_path / "m").kind == "Example"


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_a_link_stays_and_its_target_is_written(tmp_path):
    (tmp_path / "a").mkdir()
    link = tmp_path / "link"
    link.symlink_to(Path("a") / "m")
    for kind in ("First", "Second"):  # the link dangles, then it does not
        write_model(link, ModelState(kind, {}, {}))
        assert link.is_symlink() and not (tmp_path / "a" / "m").is_symlink()
        assert read_model(link).kind == read_model(tmp_path / "a" / "m").kind == kind
    assert sorted(os.listdir(tmp_path)) == ["a", "link"] and os.listdir(tmp_path / "a") == ["m"]


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_what_is_no_file_is_neither_read_nor_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null"), Path("/dev/zero")):
        with pytest.raises(ModelFileError, match="not a regular file"):
            read_model(path)
        with pytest.raises(OSError, match="not a regular file"):
            write_model(path, small_state())
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


def test_missing_files_and_folders_are_os_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_model(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        write_model(tmp_path / "nowhere" / "m", small_state())
    with pytest.raises(OSError):
        read_model(tmp_path)
    with pytest.raises(IsADirectoryError, match="path of a file"):
        write_model(tmp_path, small_state())
    assert not list(tmp_path.iterdir())


def test_a_name_as_long_as_can_be_is_written(tmp_path, monkeypatch):
    write_model(tmp_path / ("m" * 255), small_state())
    monkeypatch.chdir(tmp_path)
    write_model("here", small_state())
    assert read_model("here").kind == "Example"


def test_what_goes_wrong_with_the_contents_is_the_files_fault():
    with (
        pytest.raises(ModelFileError, match=r"'m\.x' is not a valid model file: IndexError: "),
        raise_as_model_file_error("m.x"),
    ):
        np.zeros(3)[7]
    with pytest.raises(KeyboardInterrupt), raise_as_model_file_error("m.x"):
        raise KeyboardInterrupt
    with pytest.raises(ModelFileError, match=r"^mine$"), raise_as_model_file_error("m.x"):
        raise ModelFileError("mine")


def test_the_module_does_not_know_pickle():
    source = Path(modelfile.__file__).read_text(encoding="utf-8")
    for word in ("import pickle", "joblib.load", "np.load", "allow_pickle", "eval(", "exec("):
        assert word not in source
