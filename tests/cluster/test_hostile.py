"""Requests that nobody should send, over raw sockets: each gets a clear answer or a clean end, and harms nobody else."""

import contextlib
import json
import ssl
import threading
import time

import pytest

from flood import Peaks
from launch import get_json, wait_for
from raw import Raw, chunk, request
from rest import Stream, complete, load, post

COMPLETIONS = "/v1/completions"
GOOD = b'{"prompt": "Mr. Darcy", "max_tokens": 4, "temperature": 0}'
LIMIT = 8 * 2**20
LONG = {"max_tokens": 200_000, "temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def dawdlers(demo):
    """Clients that send a header now and then and never come to the end of them; they are there during all tests."""
    connections = [Raw(demo.url) for _ in range(30)]
    stop = threading.Event()

    def dawdle():
        for connection in connections:
            connection.send(b"POST /v1/completions HTTP/1.1\r\nHost: krait\r\n")
        while not stop.wait(0.5):
            for connection in connections:
                connection.send(b"X: y\r\n")

    sender = threading.Thread(target=dawdle)
    sender.start()
    yield connections
    stop.set()
    sender.join()
    for connection in connections:
        with connection:
            pass


@pytest.fixture(scope="module")
def truth(demo):
    return complete(demo.url, **json.loads(GOOD))["choices"]


@pytest.fixture(autouse=True)
def the_server_stays_sound(demo, dawdlers, truth):
    """After each test: nothing of it is held, and an honest request gets the same answer as ever."""
    yield
    wait_for(lambda: load(demo) == (0, 0), "what the test began to be given up", 30)
    assert complete(demo.url, **json.loads(GOOD))["choices"] == truth
    assert get_json(demo.url, "/ready")[0] == 200


def number(text):
    return b'{"prompt": "a", "max_tokens": %s}' % text


def prompt(text):
    return b'{"prompt": %s}' % text


BODIES = [
    # (body, the field that the error must name; None: the body as a whole)
    (b"", None),
    (b"{", None),
    (b"[]", None),
    (b"null", None),
    (GOOD + b"x", "temperature"),
    (b"\x00" + GOOD, None),
    (b"\xef\xbb\xbf\xef\xbb\xbf" + GOOD, None),
    (prompt(b"[" * 500_000), "prompt"),
    (b'{"metadata": ' + b'{"a":' * 1000, "metadata"),
    (b'{"prompt": "a", "n": 1, "n": 2}', "n"),
    (b'{"prompt": "a", "logit_bias": {"5": 1, "5": 2}}', "5"),
    (b"{}", "prompt"),
    (prompt(b"null"), "prompt"),
    (prompt(b'""'), "prompt"),
    (prompt(b"[]"), "prompt"),
    (prompt(b"[[]]"), "prompt[0]"),
    (prompt(b'["a", ""]'), "prompt[1]"),
    (prompt(b"{}"), "prompt"),
    (prompt(b"true"), "prompt"),
    (prompt(b'"\\ud800"'), "prompt"),
    (prompt(b'"\\udc00\\ud800"'), "prompt"),
    (prompt(b'"\xff\xfe"'), "prompt"),
    (prompt(b'"\xc0\x80"'), "prompt"),
    (prompt(b'"\xed\xa0\x80"'), "prompt"),
    (prompt(b'"\xf4\x90\x80\x80"'), "prompt"),
    (b'{"prompt": "a", "stop": ["b", "\\udfff"]}', "stop"),
    (b'{"prompt": "a", "stop": "\xe2\x82"}', "stop"),
    *((prompt(b"[5, %s]" % text), "prompt[1]") for text in (b"4096", b"-1", b"2147483648", b"4294967301")),
    *((prompt(b"[5, %s]" % text), "prompt[1]") for text in (b"9223372036854775808", b"36893488147419103237")),
    *((prompt(b"[5, %s]" % text), "prompt[1]") for text in (b"1.5", b"1e300", b"-0.1", b'"5"', b"null", b"true")),
    *((number(text), "max_tokens") for text in (b"2147483648", b"4294967297", b"9223372036854775808", b"1e300")),
    *((number(text), "max_tokens") for text in (b"18446744073709551617", b"-9223372036854775809", b"1e999", b"1.5")),
    *((number(text), "max_tokens") for text in (b"NaN", b"Infinity", b"-Infinity", b'"NaN"', b"[1]", b"{}", b"0x10")),
    (b'{"prompt": "a", "temperature": 1e999}', "temperature"),
    (b'{"prompt": "a", "temperature": -Infinity}', "temperature"),
    (b'{"prompt": "a", "temperature": "Infinity"}', "temperature"),
    (b'{"prompt": "a", "logit_bias": {"5": NaN}}', "logit_bias"),
    (b'{"prompt": "a", "logit_bias": {"4096": 1}}', "logit_bias.4096"),
    (b'{"prompt": "a", "logit_bias": {"-1": 1}}', "logit_bias.-1"),
    (b'{"prompt": "a", "stop_token_ids": [4096]}', "stop_token_ids"),
    (b'{"prompt": "a", "seed": 18446744073709551616}', "seed"),
    (b'{"prompt": [' + b"1," * 2**20 + b"1]}", "prompt"),
    (b'{"prompt": [' + b"1," * 65_536 + b'1], "echo": true, "logprobs": 0}', "prompt"),
    (b'{"prompt": [' + b"[1]," * 2048 + b"[1]]}", "prompt"),
]


def test_every_bad_body_is_answered_by_name_and_the_connection_goes_on(demo):
    with Raw(demo.url) as connection:
        for body, param in BODIES:
            connection.send(request(COMPLETIONS, body))
            answer = connection.answer()
            assert answer.status == 400, (body[:80], answer.body)
            assert answer.error["type"] == "invalid_request_error"
            assert answer.error["param"] == param, (body[:80], answer.body)
        connection.send(request(COMPLETIONS, GOOD))
        assert connection.answer().status == 200
    with Raw(demo.url) as connection:
        connection.send(request(COMPLETIONS, b'{"model": "other", "prompt": "a"}'))
        answer = connection.answer()
        assert (answer.status, answer.error["param"], answer.error["type"]) == (404, "model", "not_found_error")


def test_bodies_up_to_the_limit_and_not_over_it(demo):
    full = GOOD + b" " * (LIMIT - len(GOOD))
    with Raw(demo.url) as connection:
        connection.send(request(COMPLETIONS, full))
        assert connection.answer().status == 200
        connection.send(request(COMPLETIONS, b"", "Transfer-Encoding: chunked", "Content-Length-X: 0").replace(
            b"Content-Length: 0\r\n", b"") + chunk(full[: LIMIT // 2]) + chunk(full[LIMIT // 2 :]) + b"0\r\n\r\n")
        assert connection.answer().status == 200
    too_much = [
        request(COMPLETIONS, b"", f"Content-Length: {LIMIT + 1}"),
        request(COMPLETIONS, b"", f"Content-Length: {LIMIT + 1}") + full + b" ",
        request(COMPLETIONS, b"", f"Content-Length: {LIMIT + 1}", "Expect: 100-continue"),
        request(COMPLETIONS, b"", "Content-Length: 9223372036854775807"),
        CHUNKED + b"%x\r\n" % (LIMIT + 1),
        CHUNKED + chunk(full) + chunk(b" "),
        CHUNKED + (chunk(b" " * 65_536) * 200) + b"0\r\n\r\n",
    ]
    for data in too_much:
        with Raw(demo.url) as connection:
            connection.send(data)
            answer = connection.answer()
            assert (answer.status, answer.error["code"]) == (413, "too_large"), data[:200]
            assert connection.ended()


CHUNKED = b"POST /v1/completions HTTP/1.1\r\nHost: krait\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_as_many_tokens_as_are_promised_are_taken(demo):
    for fields in ({"prompt": [7] * 2**20}, {"prompt": [7] * 65_536, "echo": True, "logprobs": 0}):
        stream = Stream(demo.url, **fields, **LONG)
        wait_for(lambda: load(demo) == (1, 0), "the request to run")
        stream.drop()
        wait_for(lambda: load(demo) == (0, 0), "the request to end")


def test_stop_strings_and_biases_of_many_sequences_are_held_once(demo):
    """65 KB of stop strings for a thousand sequences, while somebody else streams."""
    stop = [chr(0x1F600 + i) + chr(0x1F680) * 1023 for i in range(16)]
    fields = {"prompt": [[1]] * 8, "n": 128, "stop": stop, "logit_bias": {str(token): 0.5 for token in range(1024)}}
    body = json.dumps({**fields, "max_tokens": 1}, ensure_ascii=False).encode()
    stream = Stream(demo.url, prompt="Mr. Darcy", **LONG)
    heard, over = [], threading.Event()

    def listen():
        while not over.is_set() and (not heard or isinstance(heard[-1], dict)):
            with contextlib.suppress(TimeoutError):  # comments are no event, but a time to look whether it is over
                heard.append(stream.read_event(time.monotonic() + 1))

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        wait_for(lambda: heard, "the stream to begin")
        with Peaks(demo) as peaks:
            status, _, document = post(demo.url, COMPLETIONS, body)
        assert status == 200 and len(document["choices"]) == 1024
        count = len(heard)
        wait_for(lambda: len(heard) > count + 20, "the stream to go on")
    finally:
        over.set()
        listener.join()
        stream.drop()
    assert all(isinstance(event, dict) and "error" not in event for event in heard)
    grown = peaks.grown_mib()[demo.process_of("coordinator")["log"]]
    print(f"the coordinator grew by {grown:.1f} MiB")
    # The stop strings are 1.3 MiB with their automaton; a thousand messages with eight KiB of biases may be on the way.
    assert grown < 64


def test_lengths_that_lie(demo):
    with Raw(demo.url) as connection:  # more was promised than comes
        connection.send(request(COMPLETIONS, GOOD, f"Content-Length: {len(GOOD) + 10}"))
        connection.half_close()
        assert connection.answer().error["message"] and connection.ended()
    with Raw(demo.url) as connection:  # more comes than was promised: the rest is no request
        connection.send(request(COMPLETIONS, GOOD + b"{}", f"Content-Length: {len(GOOD)}"))
        assert connection.answer().status == 200
        assert connection.answer().status == 400 and connection.ended()


def test_a_body_that_is_waited_for(demo):
    with Raw(demo.url) as connection:
        connection.send(request(COMPLETIONS, b"", f"Content-Length: {len(GOOD)}", "Expect: 100-continue"))
        assert connection._file.readline() == b"HTTP/1.1 100 Continue\r\n" and connection._file.readline() == b"\r\n"
        connection.send(GOOD)
        assert connection.answer().status == 200
        connection.send(request(COMPLETIONS, GOOD, "Expect: something"))
        assert connection.answer().status == 417 and connection.ended()


def test_chunks(demo):
    halves = chunk(GOOD[:20]), chunk(GOOD[20:])
    extended = b"%x;name=value;q=\"a;b\"\r\n" % 20 + GOOD[:20] + b"\r\n"
    good = [
        b"".join(halves) + b"0\r\n\r\n",
        extended + halves[1] + b"000;last\r\nx-request-id: smuggled\r\nX: y\r\n\r\n",
        b"".join(chunk(GOOD[i : i + 1]) for i in range(len(GOOD))) + b"0\r\n\r\n",
    ]
    with Raw(demo.url) as connection:
        for body in good:
            connection.send(CHUNKED + body)
            answer = connection.answer()
            assert answer.status == 200 and answer.headers["x-request-id"] != "smuggled"
    bad = [b"-1\r\n", b"zz\r\n", b"\r\n", b" 3\r\nabc", b"0x3\r\nabc\r\n", b"3\nabc\r\n", b"3;a\nabc\r\n",
           b"ffffffffffffffffff\r\n", b"3\r\nabcd\r\n", b"1\r\n{\r\n0\r\nContent-Length: 3\r\n\r\n"]
    for body in bad:
        with Raw(demo.url) as connection:
            connection.send(CHUNKED + body)
            assert connection.answer().status in (400, 413), body
            assert connection.ended()
    for flood in (b"1;" + b"e" * 200_000, b"1\r\n{\r\n0\r\n" + b"t: u\r\n" * 30_000):
        with Raw(demo.url) as connection:
            connection.send(CHUNKED + flood)
            assert connection.answer().status == 431 and connection.ended()


SMUGGLING = [
    ("Content-Length: 4", "Transfer-Encoding: chunked"),
    ("Transfer-Encoding: chunked", "Content-Length: 4"),
    ("Content-Length: 4", "Content-Length: 5"),
    ("Content-Length: 4", "Content-Length: 4"),
    ("Content-Length: 4, 4",),
    ("Content-Length: +4",),
    ("Content-Length : 4",),
    ("X: y\r\n Content-Length: 4",),
    ("Transfer-Encoding: xchunked",),
    ("Transfer-Encoding:\r\n chunked",),
    ("Transfer-Encoding: chunked, identity",),
    ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
    ("X: y\nContent-Length: 4",),
    ("X: y\rContent-Length: 4",),
    ("Transfer-Encoding\x00: chunked",),
]


@pytest.mark.parametrize("headers", SMUGGLING, ids=range(len(SMUGGLING)))
def test_a_request_with_two_readings_is_none(demo, headers):
    hidden = request("/v1/models", method="GET")
    head = "POST /v1/completions HTTP/1.1\r\nHost: krait\r\n" + "".join(line + "\r\n" for line in headers)
    with Raw(demo.url) as connection:
        connection.send(head.encode() + b"\r\n0\r\n\r\n" + hidden)
        answer = connection.answer()
        assert answer.status in (400, 501) and answer.error
        assert connection.ended(), "the hidden request must not be answered"


def test_several_requests_at_once_and_clients_that_leave(demo, truth):
    with Raw(demo.url) as connection:
        connection.send(request(COMPLETIONS, GOOD) + request("/health", method="GET") + request(COMPLETIONS, b"{")
                        + request(COMPLETIONS, GOOD))
        answers = [connection.answer(method) for method in ("POST", "GET", "POST", "POST")]
        assert [answer.status for answer in answers] == [200, 200, 400, 200]
        assert answers[0].document["choices"] == answers[3].document["choices"] == truth
    running = json.dumps({"prompt": "Mr. Darcy", **LONG}).encode()
    with Raw(demo.url) as connection:  # who says no more counts as gone
        connection.send(request(COMPLETIONS, running))
        wait_for(lambda: load(demo) == (1, 0), "the request to run")
        connection.half_close()
        assert connection.ended()
    for _ in range(20):  # begins many, leaves them all
        with Raw(demo.url) as connection:
            connection.send(request(COMPLETIONS, running) * 3)


def test_floods_of_headers(demo):
    floods = ["X: y"] * 300, ["X: " + "y" * 70_000], ["X" * 70_000 + ": y"], [f"X{i}: " + "y" * 1000 for i in range(90)]
    for lines in floods:
        with Raw(demo.url) as connection:
            connection.send(request("/health", b"", *lines, method="GET"))
            assert connection.answer("GET").error["code"] == "headers_too_large" and connection.ended()
    with Raw(demo.url) as connection:
        connection.send(request("/" + "a" * 70_000, method="GET"))
        assert connection.answer("GET").status == 431


def test_tls_on_the_plain_port(demo):
    outgoing = ssl.MemoryBIO()
    handshake = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="krait")
    with pytest.raises(ssl.SSLWantReadError):
        handshake.do_handshake()
    with Raw(demo.url) as connection:
        connection.send(outgoing.read())
        answer = connection.answer()
        assert answer.status == 400 and "TLS" in answer.error["message"] and connection.ended()


def test_http_1_0(demo, truth):
    head = "Connection: keep-alive"
    with Raw(demo.url) as connection:
        for _ in range(2):
            connection.send(request(COMPLETIONS, GOOD, head, version="1.0"))
            answer = connection.answer()
            assert answer.document["choices"] == truth and answer.headers["connection"] == "keep-alive"
        connection.send(request(COMPLETIONS, GOOD, version="1.0"))
        assert connection.answer().status == 200 and connection.ended()
    with Raw(demo.url) as connection:  # a stream has no chunks there, and ends with the connection
        connection.send(request(COMPLETIONS, GOOD[:-1] + b', "stream": true}', head, version="1.0"))
        answer = connection.answer()
        assert answer.headers["transfer-encoding"] is None and answer.headers["connection"] == "close"
        events = [line[6:] for line in answer.body.decode().split("\n") if line.startswith("data: ")]
        assert events.pop() == "[DONE]"
        texts = [choice["text"] for event in events for choice in json.loads(event)["choices"]]
        assert "".join(texts) == truth[0]["text"]


def test_methods_paths_and_targets(demo):
    cases = [
        (("GET", "/v1/completions"), 405, "OPTIONS, POST"),
        (("HEAD", "/v1/completions"), 405, "OPTIONS, POST"),
        (("DELETE", "/v1/models"), 405, "GET, HEAD, OPTIONS"),
        (("TRACE", "/health"), 405, "GET, HEAD, OPTIONS"),
        (("get", "/health"), 405, "GET, HEAD, OPTIONS"),
        (("OPTIONS", "/v1/completions"), 204, "OPTIONS, POST"),
        (("OPTIONS", "*"), 204, "GET, HEAD, OPTIONS, POST"),
        (("HEAD", "/health"), 200, None),
        (("GET", "http://krait/health?x=1"), 200, None),
        (("GET", "/health?a=%ff&b=\xff&c=%zz&d"), 200, None),
        (("GET", "/v1/models/\xff%fe%"), 404, None),
        (("GET", "/v1/none"), 404, None),
        (("GET", "//health"), 404, None),
        (("GET", "/../health"), 404, None),
    ]
    with Raw(demo.url) as connection:
        for (method, target), status, allowed in cases:
            connection.send(request(target, method=method))
            answer = connection.answer(method)
            assert (answer.status, answer.headers["allow"]) == (status, allowed), (method, target)
            if method != "HEAD" and status >= 400:
                assert answer.error
        connection.send(request("/health", b"", "x-request-id: \xff\xfe", "Authorization: Bearer \xff", method="GET"))
        answer = connection.answer("GET")
        assert answer.status == 200 and answer.headers["x-request-id"].startswith("req-")
    refused = [("health", 400), ("ftp://krait/health", 400), ("krait:80", 400), ("/a\x01", 400), ("/a b", 505)]
    for target, status in refused:
        with Raw(demo.url) as connection:
            connection.send(request(target, method="GET"))
            assert connection.answer("GET").status == status, target
            assert connection.ended()
    for version in ("2.0", "1.2", "0.9", "1"):
        with Raw(demo.url) as connection:
            connection.send(request("/health", method="GET", version=version))
            assert connection.answer("GET").status == 505, version
            assert connection.ended()


def test_dawdlers_are_told_and_shown_the_door(demo, dawdlers):
    """The last test, so that they had their ten seconds while the others ran."""
    began = time.monotonic()
    for connection in dawdlers:
        answer = connection.answer()
        assert answer.status == 408 and answer.error["code"] == "request_timeout" and connection.ended()
    assert time.monotonic() - began < 60
