"""What jaxtyping's hook does to every function of jbt while pytest runs, at a small part of the
cost.

jaxtyping checks the arguments, then calls the function, then checks the arguments and the result,
by two functions that it makes when a module is imported. Here one function of beartype checks
both, and is made at the first call: most of what a worker imports it never calls.
"""

import dataclasses
import functools
import typing

import jaxtyping
from beartype import BeartypeConf, beartype

of_types = beartype(conf=BeartypeConf(violation_type=TypeError))
scope = jaxtyping.jaxtyped


def checked(function):
    """A function, or a dataclass with a constructor, in whose annotations a name is one size."""
    if isinstance(function, type):
        if dataclasses.is_dataclass(function):
            function.__init__ = checked(function.__init__)
        return function

    @functools.cache
    def check():
        hints = function.__annotations__
        for name, text in hints.items():
            if isinstance(text, str):
                try:
                    hints[name] = eval(text, function.__globals__)
                except NameError:  # imported for type checkers alone
                    hints[name] = typing.Any
        return of_types(function)

    @functools.wraps(function)
    def call(*arguments, **named):
        with scope("context"):
            called = function if jaxtyping.config.jaxtyping_disable else check()
            return called(*arguments, **named)

    return call


jaxtyping.jaxtyped = lambda typechecker: checked
