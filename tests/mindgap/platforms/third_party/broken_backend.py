"""What a third party may get wrong: nothing of this may reach the platforms of others."""

from mindgap.platforms.protocol import Availability


class NoOpen:
    options = {}

    def probe(self):
        return Availability(True)

    def environment(self, options):
        return {}


class Raising(NoOpen):
    options = {"depth": "N: how deep"}

    def probe(self):
        raise OSError("the driver is\ngone")

    def environment(self, options):
        raise ValueError("no such depth")

    def open(self, options):
        raise NotImplementedError


class NotText(Raising):
    def environment(self, options):
        return {"DEPTH": 3}


NO_OPEN = NoOpen()
RAISING = Raising()
NOT_TEXT = NotText()
