"""Every public name has an example in its docstring, and each example says what it prints."""

import doctest
import importlib

import pytest

import langchain_denoise


@pytest.mark.parametrize("name", langchain_denoise.__all__)
def test_the_example_of_a_public_name_runs(name):
    value = getattr(langchain_denoise, name)
    home = importlib.import_module(value.__module__)
    (test,) = doctest.DocTestFinder(recurse=False).find(value, name, module=home)
    assert test.examples
    assert test.examples[-1].want
    done = doctest.DocTestRunner(
        optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    ).run(test)
    assert done.failed == 0
