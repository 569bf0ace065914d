"""The shared store against a real redis-server: tenants apart, expiry, and a dead server costs speed only."""

import pickle
import shutil
import socket
import subprocess
import time

import pytest

from denoise_core import InputError, Message
from denoise_core.running.caches import cache as caching
from denoise_core.running.caches.cache import Cache
from denoise_core.running.caches.stores import RedisStore
from denoise_core.testing import FunctionLLM, check_store

redis = pytest.importorskip("redis", reason="redis-py is not installed (extra `redis`)")
COMMAND = shutil.which("redis-server")
pytestmark = [
    pytest.mark.enable_socket,
    pytest.mark.skipif(COMMAND is None, reason="there is no redis-server: apt install redis-server"),
]

ASKED = [Message("user", "what?")]


class Server:
    def __init__(self, folder, *options):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.command = [
            COMMAND,
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--dir",
            str(folder),
        ]
        self.command += options
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        for _ in range(500):
            try:
                redis.Redis(port=self.port).ping()
                return
            except redis.AuthenticationError:
                return
            except redis.ConnectionError:
                time.sleep(0.02)
        raise AssertionError("redis-server did not start")

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("redis"))
    yield running
    running.kill()


def test_what_is_put_is_got_from_any_thread(server):
    check_store(RedisStore(server.url, tenant="threads"))
    RedisStore(server.url).put("key", "half \ud83d")
    assert RedisStore(server.url).get("key") == "half \ud83d"


def test_tenants_share_nothing_and_cannot_name_each_other(server):
    names = ["", "a", "b", "a:b", "*", "a\n"]
    for name in names:
        RedisStore(server.url, tenant=name).put("key", f"of {name!r}")
    RedisStore(server.url, tenant="a", prefix="other").put("key", "other")
    for name in names:
        assert RedisStore(server.url, tenant=name).get("key") == f"of {name!r}"
    assert RedisStore(server.url, tenant="c").get("key") is None
    assert not any(b"a:b" in name for name in redis.Redis(port=server.port).keys())  # noqa: SIM118


def test_texts_expire(server):
    RedisStore(server.url, tenant="soon", expiry=100).put("key", "text")
    RedisStore(server.url, tenant="never", expiry=None).put("key", "text")
    raw = redis.Redis(port=server.port)
    left = {t: raw.pttl(RedisStore(server.url, tenant=t)._name("key")) for t in ("soon", "never")}
    assert 0 < left["soon"] <= 100_000
    assert left["never"] == -1


def test_what_is_no_text_is_missing(server):
    store = RedisStore(server.url)
    redis.Redis(port=server.port).set(store._name("key"), b"\xff\xfe")
    assert store.get("key") is None


def counted():
    calls = []

    def reply(messages):
        calls.append(1)
        return "yes"

    return FunctionLLM(reply), calls


async def test_two_processes_caches_pay_once(server):
    llm, calls = counted()
    first = Cache("m", RedisStore(server.url, tenant="shared")).bind(llm, lambda r: True)
    second = Cache("m", RedisStore(server.url, tenant="shared")).bind(llm, lambda r: True)
    assert (await first.acomplete(ASKED)).text == second.complete(ASKED).text == "yes"
    assert len(calls) == 1


def test_a_dead_server_costs_speed_only(tmp_path, monkeypatch):
    monkeypatch.setattr(caching, "BYPASS_SECONDS", 0.0)
    server = Server(tmp_path)
    llm, calls = counted()
    bound = Cache("m", RedisStore(server.url)).bind(llm, lambda r: True)
    assert [bound.complete(ASKED).text for _ in range(2)] == ["yes", "yes"]
    server.kill()
    assert [bound.complete(ASKED).text for _ in range(2)] == ["yes", "yes"]
    assert len(calls) == 3
    server.start()
    try:
        assert [bound.complete(ASKED).text for _ in range(2)] == ["yes", "yes"]
        assert len(calls) == 4
    finally:
        server.kill()


def test_a_server_that_hangs_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        llm, _ = counted()
        store = RedisStore(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", timeout=0.05)
        assert Cache("m", store).bind(llm, lambda r: True).complete(ASKED).text == "yes"


def test_a_full_server_is_a_failure_of_the_store_alone(tmp_path):
    server = Server(tmp_path, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
    try:
        llm, _ = counted()
        bound = Cache("m", RedisStore(server.url)).bind(llm, lambda r: True)
        assert bound.complete(ASKED).text == "yes"
    finally:
        server.kill()


def test_the_password_is_in_the_environment_alone(tmp_path, monkeypatch):
    server = Server(tmp_path, "--requirepass", "hush")
    try:
        monkeypatch.setenv("CACHE_PASSWORD", "hush")
        store = RedisStore(server.url, password_env="CACHE_PASSWORD")
        store.put("key", "text")
        sent = pickle.dumps(store)
        assert b"hush" not in sent
        assert pickle.loads(sent).get("key") == "text"  # noqa: S301
        monkeypatch.delenv("CACHE_PASSWORD")
        with pytest.raises(InputError, match="'CACHE_PASSWORD': that environment variable is not set"):
            RedisStore(server.url, password_env="CACHE_PASSWORD").get("key")
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"url": "http://a"}, "redis://"),
        ({"url": "redis://:hush@a"}, "password_env"),
        ({"expiry": 0}, "expiry=0"),
        ({"timeout": 0}, "timeout=0"),
    ],
)
def test_settings_that_cannot_be_right_are_refused(settings, match):
    with pytest.raises(InputError, match=match):
        RedisStore(**{"url": "redis://127.0.0.1", **settings})
