"""Bit sources that say what they are told to."""


class Scripted:
    """Answers each request with the next item of a script, whose length must fit; then fails."""

    def __init__(self, script):
        self._script = list(script)[::-1]

    def __call__(self, count):
        part = self._script.pop()
        assert len(part) == count
        return part

    @property
    def done(self):
        return not self._script


def no_bits(count):
    raise AssertionError(f"{count} bytes asked for")


def word64(value):
    return value.to_bytes(8, "little")
