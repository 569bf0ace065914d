import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from denoise_core.runtime.caches import SingleLoadCache


class Model:
    pass


def test_many_threads_load_once():
    once, loads = SingleLoadCache(), []

    def load():
        loads.append(1)
        time.sleep(0.05)
        return Model()

    with ThreadPoolExecutor(16) as pool:
        models = list(pool.map(lambda _: once("m", load), range(16)))
    assert len(loads) == 1
    assert len(set(models)) == 1


def test_another_key_does_not_wait_and_a_failed_load_is_tried_again():
    once = SingleLoadCache(keeps_all=True)
    with pytest.raises(OSError, match="gone"):
        once("m", lambda: (_ for _ in ()).throw(OSError("gone")))
    inside = once("m", lambda: once("n", Model))
    assert once("n", Model) is inside is once("m", Model)


def test_what_nobody_holds_is_let_go():
    once = SingleLoadCache()
    loads = []
    for _ in range(2):
        model = once("m", lambda: loads.append(1) or Model())
        del model
    assert len(loads) == 2
