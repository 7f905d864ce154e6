"""How files are written: only onto regular files, never more readable than before, and cleaning up after the killed."""

import errno
import os
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest
from tests.io.samples import make_model
from tests.io.test_files import entry, rewrite

import kompakt
from kompakt.checkpoint import CheckpointError
from kompakt.data.table import Number, TableSchema
from kompakt.inputs import Inputs
from kompakt.io import ModelFileError, files
from kompakt.kernels import Linear

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes, modes and locks of Unix")
MODEL = make_model("outlier", kernel=Linear())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "machine.kompakt"


def make_device(path, minor):
    """A null device (3) or a full one (7) of our own: a mistake must not replace those of the system."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        os.close(os.open(path, os.O_WRONLY))
    except (OSError, AttributeError) as error:
        pytest.skip(f"no device can be made here: {error}")


def listed(path):
    return sorted(os.listdir(path.parent))


WRITERS = {
    "save": kompakt.save,
    "to_c": kompakt.to_c,
    "to_numpy": kompakt.to_numpy,
    "to_libsvm": kompakt.to_libsvm,
    "to_onnx": kompakt.to_onnx,
    "report": lambda model, path: kompakt.report(make_model(), np.zeros((9, 4)), np.arange(9) % 3, path),
    "checkpoint": lambda model, path: kompakt.CompactSVR(3, refine=False).fit(
        np.arange(20.0).reshape(10, 2), np.arange(10.0), checkpoint=path
    ),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_devices_and_pipes_are_refused_and_stay(path, writer, kind):
    if writer == "to_onnx":
        pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
    if kind == "pipe":
        os.mkfifo(path)
    else:
        make_device(path, 3)
    # a checkpoint is read first, where it is there
    with pytest.raises((OSError, CheckpointError), match="regular file"):
        WRITERS[writer](MODEL, path)
    mode = os.stat(path).st_mode
    assert stat.S_ISFIFO(mode) if kind == "pipe" else stat.S_ISCHR(mode)
    assert listed(path) == [path.name]


def test_the_files_beside_a_libsvm_model_are_checked_first(path):
    scaled = make_model("regressor", inputs=Inputs(shift=np.ones(4), scale=np.full(4, 2.0)))
    os.mkfifo(f"{path}.range")
    with pytest.raises(OSError, match="regular file"):
        kompakt.to_libsvm(scaled, path)
    assert listed(path) == [f"{path.name}.range"]


def test_a_libsvm_model_is_written_with_all_its_files_or_not_at_all(path, monkeypatch):
    """The disk is full at the second, or third, of the three files."""

    def scaled(by):
        scale = np.full(4, by)
        return make_model(classes=["a", "b", "c"], kernel=Linear(), inputs=Inputs(shift=np.ones(4), scale=scale))

    kompakt.to_libsvm(scaled(2.0), path)
    names = listed(path)
    assert len(names) == 3
    before = {name: (path.parent / name).read_bytes() for name in names}
    fsync, calls = os.fsync, []
    for last in (1, 2, 3):

        def full(descriptor, last=last):
            calls.append(descriptor)
            if len(calls) == last:
                raise OSError(errno.ENOSPC, "No space left on device")
            fsync(descriptor)

        calls.clear()
        monkeypatch.setattr(files.os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            kompakt.to_libsvm(scaled(3.0), path)
        assert {name: (path.parent / name).read_bytes() for name in listed(path)} == before


def table_model(fill):
    schema = TableSchema((Number("length", fill, False),))
    return make_model("regressor", d=1, kernel=Linear(), inputs=Inputs(schema))


@pytest.mark.parametrize("format", ["numpy", "libsvm"])
@pytest.mark.parametrize("before", [True, False], ids=["old files", "no files"])
def test_files_of_an_export_belong_together_after_an_error(path, monkeypatch, format, before):
    """The second of the files cannot take its place: the first gives up its own again."""
    write = getattr(kompakt, f"to_{format}")
    if before:
        write(table_model(1.5), path)
        assert len(listed(path)) == 2
    found = {name: (path.parent / name).read_bytes() for name in listed(path)}
    replace, calls = os.replace, []

    def fail_once(source, target):
        calls.append(target)
        if len(calls) == 2:
            raise OSError(errno.EIO, "Input/output error")
        replace(source, target)

    monkeypatch.setattr(files.os, "replace", fail_once)
    with pytest.raises(OSError, match="Input/output"):
        write(table_model(2.5), path)
    assert {name: (path.parent / name).read_bytes() for name in listed(path)} == found


def test_files_of_a_killed_export_are_mended_by_the_next(path):
    code = (
        "import os, signal, sys; from kompakt.io import files; replace, calls = os.replace, []\n"
        "def stop(*names):\n"
        "    calls.append(names); len(calls) < 2 or os.kill(os.getpid(), signal.SIGKILL); replace(*names)\n"
        "files.os.replace = stop; files.write_together({sys.argv[1]: [b'new'], sys.argv[1] + '.range': [b'new']})"
    )
    beside = path.with_name(f"{path.name}.range")
    path.write_bytes(b"old"), beside.write_bytes(b"old")
    assert subprocess.run([sys.executable, "-c", code, str(path)], timeout=60).returncode == -signal.SIGKILL
    assert {path.read_bytes(), beside.read_bytes()} <= {b"old", b"new"}
    files.write_together({path: [b"newer"], beside: [b"newer"]})
    assert listed(path) == [path.name, beside.name]
    assert path.read_bytes() == beside.read_bytes() == b"newer"


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_only_a_regular_file_is_replaced(path, kind):
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    with pytest.raises(OSError, match=f"it is a {kind}, not a regular file"), files.replacing(path) as file:
        file.write(b"text")
    assert listed(path) == [path.name]
    assert not path.is_file()


@pytest.mark.parametrize("length", [237, 238, 255])
def test_names_as_long_as_the_file_system_takes_are_written(tmp_path, length):
    path = tmp_path / ("ä" * 100 + "n" * (length - 200))
    kompakt.save(MODEL, path)
    kompakt.save(MODEL, path)
    kompakt.load(path)
    path.unlink()
    kompakt.CompactSVR(3, refine=False).fit(np.arange(20.0).reshape(10, 2), np.arange(10.0), checkpoint=f"{path}")
    kompakt.save(MODEL, path)
    assert listed(path) == [path.name]


def test_long_names_that_differ_at_their_end_are_different_files(tmp_path):
    one, other = (tmp_path / ("n" * 230 + end) for end in "ab")
    with files.locked(one), files.locked(other):
        assert len(os.listdir(tmp_path)) == 2
        with pytest.raises(BlockingIOError):
            files.locked(one)
    assert os.listdir(tmp_path) == []


def test_a_longer_name_is_an_error_that_names_it(tmp_path):
    path = tmp_path / ("n" * 256)
    with pytest.raises(OSError, match="too long") as found:
        kompakt.save(MODEL, path)
    assert found.value.filename == str(path)
    assert listed(path) == []


def test_a_folder_that_cannot_be_listed_can_be_written_to(path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(files.os, "listdir", refuse)
    kompakt.save(MODEL, path)
    kompakt.load(path)
    monkeypatch.setattr(files.os, "open", refuse)
    with pytest.raises(PermissionError) as found:
        kompakt.save(MODEL, path)
    assert found.value.filename == str(path)  # not that of a temporary file


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400, 0o000])
def test_the_temporary_file_is_not_more_readable_than_the_final_one(path, mode, monkeypatch):
    path.write_bytes(b"old")
    path.chmod(mode)
    seen = []
    fsync = os.fsync

    def look(descriptor):
        seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr(files.os, "fsync", look)
    before = os.umask(0o000)
    try:
        kompakt.save(MODEL, path)
    finally:
        os.umask(before)
    assert seen[0] & ~mode == 0
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize(("mask", "mode"), [(0o027, 0o640), (0o000, 0o666), (0o077, 0o600)])
def test_new_files_follow_the_mask(path, mask, mode):
    before = os.umask(mask)
    try:
        kompakt.save(MODEL, path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode


KILLED = """
import os, signal, sys
from kompakt.io import files
def stop(*_):
    {stop}
files.os.{function} = stop
files.write_atomically(sys.argv[1], [b"half"])
"""


def start(path, function, stop):
    return subprocess.Popen([sys.executable, "-c", KILLED.format(function=function, stop=stop), str(path)])


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_what_a_killed_process_left_is_removed_by_the_next_save(path, function):
    kompakt.save(MODEL, path)
    before = path.read_bytes()
    assert start(path, function, "os.kill(os.getpid(), signal.SIGKILL)").wait(60) == -signal.SIGKILL
    assert len(listed(path)) == 2
    assert path.read_bytes() == before
    kompakt.save(MODEL, path)
    assert listed(path) == [path.name]


def test_what_a_living_process_writes_is_left_alone(path):
    process = start(path, "fsync", "import time; time.sleep(120)")
    try:
        until = time.monotonic() + 60
        while not listed(path) and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.2)  # from its creation to its lock
        (temporary,) = listed(path)
        kompakt.save(MODEL, path)
        assert listed(path) == [temporary, path.name]
    finally:
        process.kill()
        process.wait()
    kompakt.save(MODEL, path)
    assert listed(path) == [path.name]


def test_only_our_own_leftovers_are_removed(path, tmp_path):
    others = [
        ".machine.kompakt.tmp", ".machine.kompakt.0123456789abcdeg.tmp", ".other.kompakt.0123456789abcdef.tmp",
        "machine.kompakt.0123456789abcdef.tmp", ".machine.kompakt.0123456789abcdef.tmp.old",
    ]  # fmt: skip
    for name in others:
        (tmp_path / name).write_text("mine")
    os.mkdir(tmp_path / ".machine.kompakt.aaaaaaaaaaaaaaaa.tmp")
    (tmp_path / ".machine.kompakt.bbbbbbbbbbbbbbbb.tmp").symlink_to(others[0])
    os.mkfifo(tmp_path / ".machine.kompakt.cccccccccccccccc.tmp")
    before = listed(path)
    (tmp_path / ".machine.kompakt.0123456789abcdef.tmp").write_text("left over")
    kompakt.save(MODEL, path)
    assert listed(path) == sorted([*before, path.name])


def test_processes_that_save_at_once_do_not_disturb_each_other(path):
    code = (
        "import sys; from kompakt.io.files import write_atomically\n"
        "for _ in range(150): write_atomically(sys.argv[1], [sys.argv[2].encode() * 1000])"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code, str(path), letter]) for letter in "abc"]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    assert path.read_text() in {letter * 1000 for letter in "abc"}
    assert listed(path) == [path.name]


# ---- declared shapes against bytes


def test_a_model_without_vectors_cannot_declare_what_no_byte_vouches_for(path):
    model = make_model("regressor", m=0, d=4)
    kompakt.save(model, path)

    def widen(header):
        header["n_features"] = 2**31 - 1
        entry(header, "basis")["shape"] = [0, 2**31 - 1]

    rewrite(path, widen)
    assert path.stat().st_size < 1000
    with pytest.raises(ModelFileError, match=r"2147483647 features and holds no vector"):
        kompakt.load(path)
    with pytest.raises(ValueError, match="holds no vector"):
        kompakt.save(make_model("regressor", m=0, d=2_000_000), path)
    wide = make_model("regressor", m=0, d=2_000_000, inputs=Inputs(shift=np.zeros(2_000_000)))
    kompakt.save(wide, path)
    assert kompakt.load(path).n_features == 2_000_000


def test_a_model_needs_an_output(path):
    with pytest.raises(ValueError, match="no output"):
        kompakt.save(make_model("regressor", n_outputs=0), path)
