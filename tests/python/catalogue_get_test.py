"""A file is fetched whole, in parts or not at all, and never gets its name unless it is listed."""

import resource
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import kvsim
from conftest import HERE
from kvsim.catalogue import download, get
from kvsim.catalogue.__main__ import main
from kvsim.catalogue.entries import entry_named

FILE = (HERE.parents[1] / "traces/sample/tiny-retriever.h5").read_bytes()
NAME = "tiny-retriever"
HALF = len(FILE) // 2


class Server:
    """Serves FILE on the loopback; `script` has what the next requests get in its place."""

    def __init__(self):
        self.contents, self.etag, self.ranges = FILE, '"1"', True
        self.script, self.asked = [], []  # a number: a status, or with a minus bytes before a cut

    def answer(self, handler):
        self.asked.append(handler.headers.get("Range"))
        step = self.script.pop(0) if self.script else None
        if isinstance(step, str):
            return self._head(handler, 302, {"Location": step})
        if step is not None and step > 0:
            return self._head(handler, step, {"Content-Length": "0"})
        first = 0
        same = handler.headers.get("If-Range", self.etag) == self.etag
        if self.asked[-1] and self.ranges and same:
            first = int(self.asked[-1].removeprefix("bytes=").removesuffix("-"))
        body = self.contents[first:]
        fields = {"Content-Length": str(len(body)), "ETag": self.etag}
        if first:
            end = f"{len(self.contents) - 1}/{len(self.contents)}"
            fields["Content-Range"] = f"bytes {first}-{end}"
        self._head(handler, 206 if first else 200, fields)
        handler.wfile.write(body if step is None else body[:step])
        handler.close_connection = True

    @staticmethod
    def _head(handler, status, fields):
        handler.send_response(status)
        for name, value in fields.items():
            handler.send_header(name, value)
        handler.end_headers()


@pytest.fixture
def server(monkeypatch):
    served = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            with suppress(ConnectionError):  # of a call that ends early
                served.answer(self)

        def log_message(self, *_):
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{listening.server_port}"
    monkeypatch.setattr(download, "pause", lambda seconds: None)
    yield served
    listening.shutdown()
    listening.server_close()


@pytest.fixture
def fetched(tmp_path, server):
    """Fetches the trace, and returns whether its bytes are all that is left in the folder."""

    def fetch():
        kvsim.get_trace(NAME, tmp_path / "t.h5", server.url, progress=False)
        left = [file.name for file in tmp_path.iterdir()]
        return left == ["t.h5"] and (tmp_path / "t.h5").read_bytes() == FILE

    return fetch


def test_a_file_is_fetched_once(fetched, server):
    assert fetched() and fetched()
    assert server.asked == [None]


def test_a_cut_connection_is_continued(fetched, server):
    server.script = [HALF - len(FILE), -7]
    assert fetched()
    assert server.asked == [None, f"bytes={HALF}-", f"bytes={len(FILE) - 7}-"]


def test_a_server_without_parts_sends_all_again(fetched, server):
    server.script, server.ranges = [-HALF], False
    assert fetched()


def test_a_file_that_changed_meanwhile_is_begun_again(fetched, server, tmp_path):
    (tmp_path / "t.h5.part").write_bytes(bytes(HALF))
    (tmp_path / "t.h5.part.etag").write_text('"0"')
    assert fetched()


def test_a_wrong_part_without_a_version_is_found_by_the_digest(fetched, server, tmp_path):
    (tmp_path / "t.h5.part").write_bytes(bytes(HALF))
    server.etag = ""
    assert fetched()
    assert server.asked == [f"bytes={HALF}-", None]


@pytest.mark.parametrize("contents", [FILE[:-1] + b"?", FILE + b"?", FILE[:-1]])
def test_another_file_never_gets_the_name(fetched, server, tmp_path, contents):
    server.contents = contents
    with pytest.raises(kvsim.DataError, match="expected"):
        fetched()
    assert [*tmp_path.iterdir()] == []


def test_a_failing_server_is_asked_again_and_a_missing_file_is_not(fetched, server):
    server.script = [404]
    with pytest.raises(kvsim.UsageError, match="404"):
        fetched()
    assert len(server.asked) == 1
    server.script = [500, 503, 429]
    assert fetched()


def test_attempts_end_and_what_was_received_is_kept(fetched, server, tmp_path):
    server.script = [HALF - len(FILE), *[500] * download.ATTEMPTS]
    with pytest.raises(kvsim.KvsimError, match="are kept"):
        fetched()
    assert (tmp_path / "t.h5.part").read_bytes() == FILE[:HALF]
    assert not (tmp_path / "t.h5").exists()
    assert fetched()


def test_redirects_lead_to_servers_alone(fetched, server, tmp_path):
    for other in ("file:///etc/hostname", "ftp://host/t.h5"):
        server.script = [other]
        with pytest.raises(kvsim.KvsimError, match="is not followed"):
            fetched()
    server.script = [f"{server.url}/elsewhere.h5"]
    assert fetched()


def test_an_interrupted_call_goes_on(fetched, server, tmp_path):
    def interrupt(done, total):
        if done > HALF:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kvsim.get_trace(NAME, tmp_path / "t.h5", server.url, progress=interrupt)
    assert fetched()
    assert int(server.asked[1].removeprefix("bytes=").removesuffix("-")) > HALF


def test_other_work_of_that_name_stays(fetched, tmp_path, server):
    (tmp_path / "t.h5").write_text("notes")
    with pytest.raises(kvsim.UsageError, match="something else of that name"):
        fetched()
    assert (tmp_path / "t.h5").read_text() == "notes"
    assert server.asked == []


def test_a_folder_serves_too_and_the_command_says_so(tmp_path, monkeypatch, capsys):
    (tmp_path / f"{NAME}.h5").write_bytes(FILE)
    monkeypatch.setenv("KVSIM_TRACES_URL", tmp_path.as_uri())
    words = ["get", NAME, "-o", str(tmp_path / "t.h5"), "-q"]
    assert main(words) == 0 and "has the listed digest" in capsys.readouterr().out
    assert main(words) == 0 and "is there" in capsys.readouterr().out


def test_a_folder_that_is_missing_is_one_line(tmp_path, server):
    with pytest.raises(kvsim.KvsimError, match="cannot be written"):
        get.fetch(entry_named(NAME), tmp_path / "missing" / "t.h5", server.url, False)


def test_a_full_disk_is_one_line_and_what_was_written_is_kept(fetched, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, hard))
    try:
        with pytest.raises(kvsim.KvsimError, match=r"t\.h5\.part: cannot be written"):
            fetched()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "t.h5.part").stat().st_size == HALF
    assert fetched()
