"""The contract of `BlobReader` as tests."""

from __future__ import annotations

import io
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from volley_core.blobs import BlobRef
from volley_core.config import ConnectorConfig
from volley_core.conformance import identity
from volley_core.errors import BlobChangedError, BlobNotFoundError
from volley_core.protocols import BlobReader

MakeReader = Callable[[], Any]
ODD_NAMES = ("with space.json", "ünï/çödé.json", "a+b&c=d;e.json", "100%25.json", "hash#tag?query.json", "dots..json")


class BlobReaderSuite:
    """Give a fixture `make_reader` (makes a new instance on the same store), `put`, `remove` and `uri`."""

    def put(self, name: str, data: bytes) -> None:
        """Store an object under this name, over what may be there."""
        raise NotImplementedError("a suite's class says how an object is stored")

    def remove(self, name: str) -> None:
        """Delete the object of this name."""
        raise NotImplementedError("a suite's class says how an object is deleted")

    def uri(self, name: str) -> str:
        """The uri of the object of this name, as `list` would give it; of "" the prefix of all."""
        raise NotImplementedError("a suite's class says what uris look like")

    def stored(self, reader: Any, name: str, data: bytes) -> BlobRef:
        """Store an object; gives the reference that names exactly this version."""
        self.put(name, data)
        ref = reader.stat(BlobRef(self.uri(name)))
        assert isinstance(ref, BlobRef)
        return ref

    def test_has_the_methods_of_a_blob_reader(self, make_reader: MakeReader) -> None:
        assert isinstance(make_reader(), BlobReader)

    def test_is_made_from_its_config(self, make_reader: MakeReader) -> None:
        identity.assert_config_class(make_reader, ConnectorConfig)

    def test_a_pickled_copy_reads_the_same_object(self, make_reader: MakeReader) -> None:
        """Used on the driver and in tasks. Constructors hold the config and nothing else."""
        ref = self.stored(make_reader(), "a.bin", b"bytes")
        with identity.assert_picklable(make_reader).open(ref) as file:
            assert file.read() == b"bytes"

    @pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 40], ids=["empty", "one byte", "all bytes"])
    def test_open_gives_the_whole_object(self, make_reader: MakeReader, data: bytes) -> None:
        """Return the object as a binary file."""
        reader = make_reader()
        with reader.open(self.stored(reader, "a.bin", data)) as file:
            assert file.read() == data
            assert file.read() == b""

    def test_open_gives_a_seekable_file(self, make_reader: MakeReader) -> None:
        """A seekable binary file."""
        data = random.Random(1).randbytes(3_000_000)
        reader = make_reader()
        with reader.open(self.stored(reader, "big.bin", data)) as file:
            assert file.readable()
            assert file.seekable()
            assert file.seek(0, io.SEEK_END) == len(data)
            assert file.read(1) == b""
            assert file.seek(-8, io.SEEK_END) == len(data) - 8
            assert file.read() == data[-8:]
            assert file.seek(1_000_000) == 1_000_000
            assert file.read(10) == data[1_000_000:1_000_010]
            assert file.tell() == 1_000_010
            assert file.seek(5, io.SEEK_CUR) == 1_000_015
            assert file.read(5) == data[1_000_015:1_000_020]
            file.seek(0)
            assert file.read() == data

    def test_reading_twice_gives_the_same_bytes(self, make_reader: MakeReader) -> None:
        """Names one object exactly, so that reading it twice gives the same bytes."""
        ref = self.stored(make_reader(), "a.bin", b"same")
        for _ in range(2):
            with make_reader().open(ref) as file:
                assert file.read() == b"same"

    def test_two_files_are_open_at_once(self, make_reader: MakeReader) -> None:
        """A file belongs to its caller, who will close it."""
        reader = make_reader()
        first, second = self.stored(reader, "a.bin", b"first"), self.stored(reader, "b.bin", b"second")
        with reader.open(first) as left, reader.open(second) as right:
            assert (left.read(2), right.read(2)) == (b"fi", b"se")
            left.close()
            assert right.read() == b"cond"

    def test_open_of_a_missing_object_raises(self, make_reader: MakeReader) -> None:
        """Raises BlobNotFoundError if the object is gone."""
        with pytest.raises(BlobNotFoundError, match=r"never\.bin"):
            make_reader().open(BlobRef(self.uri("never.bin")))

    def test_open_of_a_deleted_object_raises(self, make_reader: MakeReader) -> None:
        """Raises BlobNotFoundError if the object is gone."""
        reader = make_reader()
        ref = self.stored(reader, "a.bin", b"bytes")
        self.remove("a.bin")
        with pytest.raises(BlobNotFoundError, match=r"a\.bin"):
            reader.open(ref)

    @pytest.mark.parametrize("data", [b"longer than before", b"tiny", b"equal"], ids=["longer", "shorter", "same size"])
    def test_open_of_a_changed_object_never_gives_the_new_bytes(self, make_reader: MakeReader, data: bytes) -> None:
        """BlobChangedError if it is no longer the version that was named; a store that keeps versions gives the old."""
        reader = make_reader()
        ref = self.stored(reader, "a.bin", b"first")
        time.sleep(0.05)
        self.put("a.bin", data)
        try:
            with make_reader().open(ref) as file:
                assert file.read() == b"first"
        except BlobChangedError as error:
            assert "a.bin" in str(error)  # noqa: PT017 - either outcome keeps the contract

    def test_list_gives_every_object_under_a_prefix(self, make_reader: MakeReader) -> None:
        """Every object whose uri starts with `prefix`."""
        names = {"in/a.json", "in/b.json", "in/deep/er/c.json"}
        for name in (*names, "out/d.json"):
            self.put(name, name.encode())
        found = [ref.uri for ref in make_reader().list(self.uri("in/"))]
        assert sorted(found) == sorted(self.uri(name) for name in names)

    def test_list_takes_the_beginning_of_a_name(self, make_reader: MakeReader) -> None:
        """Whose uri *starts with* `prefix`: a prefix need not be a directory."""
        for name in ("in/2024-01.json", "in/2024-02.json", "in/2025-01.json", "in/2024/x.json"):
            self.put(name, b"{}")
        found = {ref.uri for ref in make_reader().list(self.uri("in/2024"))}
        assert found == {self.uri(name) for name in ("in/2024-01.json", "in/2024-02.json", "in/2024/x.json")}

    def test_list_of_nothing_is_empty(self, make_reader: MakeReader) -> None:
        assert list(make_reader().list(self.uri("nothing/here/"))) == []

    def test_list_gives_the_version_and_size_of_now(self, make_reader: MakeReader) -> None:
        """With the version and size that it has now."""
        reader = make_reader()
        self.put("in/a.json", b"old")
        time.sleep(0.05)
        now = self.stored(reader, "in/a.json", b"newer")
        (listed,) = reader.list(self.uri("in/"))
        assert (listed.identity, listed.size) == (now.identity, 5)
        with reader.open(listed) as file:
            assert file.read() == b"newer"

    def test_list_gives_many_objects(self, make_reader: MakeReader) -> None:
        """Every object, also if the store lists in pages."""
        names = {f"many/{number:04d}.json" for number in range(120)}
        for name in names:
            self.put(name, b"{}")
        found = [ref.uri for ref in make_reader().list(self.uri("many/"))]
        assert len(found) == 120
        assert set(found) == {self.uri(name) for name in names}

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_names_are_listed_and_opened(self, make_reader: MakeReader, name: str) -> None:
        self.put(f"odd/{name}", b"odd")
        reader = make_reader()
        (listed,) = reader.list(self.uri("odd/"))
        assert listed.uri == self.uri(f"odd/{name}")
        with reader.open(listed) as file:
            assert file.read() == b"odd"

    def test_stat_tells_size_and_version(self, make_reader: MakeReader) -> None:
        """The object as it is now, with size and version."""
        reader = make_reader()
        old = self.stored(reader, "a.bin", b"12345")
        assert (old.uri, old.size) == (self.uri("a.bin"), 5)
        assert old.version
        time.sleep(0.05)
        new = self.stored(reader, "a.bin", b"54321")
        assert new.version != old.version
        assert reader.stat(old).identity == new.identity

    def test_stat_of_a_missing_object_raises(self, make_reader: MakeReader) -> None:
        """Raises BlobNotFoundError if it is gone."""
        with pytest.raises(BlobNotFoundError, match=r"never\.bin"):
            make_reader().stat(BlobRef(self.uri("never.bin")))

    def test_several_threads_share_one_reader(self, make_reader: MakeReader) -> None:
        """Used from several threads at once."""
        reader = make_reader()
        contents = {number: f"object {number}".encode() * 1000 for number in range(8)}
        refs = {number: self.stored(reader, f"t/{number}.bin", data) for number, data in contents.items()}
        # The one that made nothing yet is the one whose first use is by all at once.
        fresh, together = make_reader(), threading.Barrier(8)

        def read(number: int) -> bytes:
            together.wait(60)
            assert fresh.stat(refs[number]).identity == refs[number].identity
            with fresh.open(refs[number]) as file:
                data: bytes = file.read()
                return data

        with ThreadPoolExecutor(8) as threads:
            assert dict(zip(contents, threads.map(read, contents), strict=True)) == contents

    def test_a_file_is_read_by_another_thread_than_opened_it(self, make_reader: MakeReader) -> None:
        """A file belongs to one thread at a time, which need not be the one that opened it."""
        reader = make_reader()
        data = random.Random(2).randbytes(2_500_000)
        ref = self.stored(reader, "a.bin", data)
        with ThreadPoolExecutor(1) as other:
            file = other.submit(reader.open, ref).result()
            assert other.submit(file.read, 1000).result() == data[:1000]
        assert file.read() == data[1000:]
        file.close()
