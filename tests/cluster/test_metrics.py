"""A real Prometheus server scrapes every process, and promtool finds no fault in what they say."""

import json
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request

import pytest

from launch import REPOSITORY, get_json, wait_for
from rest import Stream, complete, metrics

TOOLS = REPOSITORY / "build" / "tools" / "prometheus"
CONFIG = REPOSITORY / "dashboards" / "prometheus" / "prometheus.yml"


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_promtool_accepts_the_configuration():
    subprocess.run([TOOLS / "promtool", "check", "config", "--syntax-only", CONFIG], check=True)


def test_promtool_finds_no_fault_in_any_process(demo):
    complete(demo.url, prompt="Mr. Darcy", max_tokens=3)
    for process in demo.document["processes"]:
        text = wait_for(lambda url=process["metrics_url"]: _said_with_build(url), "build_info", 10)
        done = subprocess.run([TOOLS / "promtool", "check", "metrics"], input=text, capture_output=True, check=False)
        assert done.returncode == 0 and done.stderr == b"", f"{process['log']}: {done.stderr.decode()}"


def _said_with_build(url):
    """All that a process says, once it knows what it runs."""
    with urllib.request.urlopen(url, timeout=10) as response:
        assert response.headers["content-type"].startswith("text/plain")
        text = response.read()
    return text if b"krait_build_info{" in text else None


def test_every_rank_tells_what_it_does_while_it_does_it(demo):
    stream = Stream(demo.url, prompt="Mr. Darcy", max_tokens=200_000, temperature=0, ignore_eos=True)
    try:
        assert stream.read_event()["choices"]
        for rank in (0, 1):
            url, seen = demo.process_of("shard", rank)["metrics_url"], set()

            def has_grown(url=url, seen=seen):
                seen.add(sum(value for name, value in metrics(url).items() if name.startswith("krait_collectives_total")))
                return len(seen) > 3

            wait_for(has_grown, f"the count of rank {rank} to grow", 20)
    finally:
        stream.drop()


@pytest.fixture(scope="module")
def prometheus(demo, tmp_path_factory):
    """A server with our configuration and the launcher's list of targets; its URL."""
    folder = tmp_path_factory.mktemp("prometheus")
    shutil.copy(CONFIG, folder)
    (folder / "targets").mkdir()
    shutil.copy(demo.run_dir / "prometheus-targets.json", folder / "targets")
    port = _free_port()
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(
            [
                TOOLS / "prometheus",
                f"--config.file={folder / CONFIG.name}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _targets(url):
    try:
        return get_json(url, "/api/v1/targets?state=active")[1]["data"]["activeTargets"]
    except (OSError, json.JSONDecodeError):
        return []


def _query(url, expression):
    path = "/api/v1/query?query=" + urllib.parse.quote(expression)
    return get_json(url, path)[1]["data"]["result"]


def test_prometheus_scrapes_every_process(demo, prometheus):
    url = prometheus
    complete(demo.url, prompt="Mr. Darcy", max_tokens=3)
    count = len(demo.document["processes"])
    wait_for(lambda: [t["health"] for t in _targets(url)] == ["up"] * count, f"{count} healthy targets", 60)
    result = wait_for(lambda: _of_each(url, "krait_build_info", count), "build_info of each process", 60)
    places = {tuple(r["metric"].get(label) for label in ("role", "group", "rank")) for r in result}
    assert places == {("coordinator", None, None), ("shard", "g0", "0"), ("shard", "g0", "1")}
    assert all(r["value"][1] == "1" for r in result)


def _of_each(url, name, count):
    """The samples of a metric once there are `count` of them."""
    found = _query(url, name)
    return found if len(found) == count else None
