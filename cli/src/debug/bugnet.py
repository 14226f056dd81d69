"""What bugnet teaches gdb: commands that go through time, in gdb's own words."""

import gdb


def monitor(text):
    return gdb.execute("monitor " + text, to_string=True)


def refresh():
    """The process is elsewhere: what gdb remembers of it is of no use."""
    try:
        forget()
    except KeyboardInterrupt:
        # It was meant for the command behind which this comes.
        forget()


def forget():
    # The thread that gdb shows may not have begun here, or be over: without another one, gdb fails at whatever it does next. It cannot
    # say which one it was once it knows that.
    shown = gdb.selected_thread().ptid if gdb.selected_thread() else None
    here = gdb.selected_inferior().threads()
    if here and shown not in [thread.ptid for thread in here]:
        here[0].switch()
    for what in ("register-cache", "dcache"):
        gdb.execute("maintenance flush " + what, to_string=True)
    # Other libraries may be mapped there.
    if gdb.parameter("auto-solib-add"):
        gdb.execute("sharedlibrary", to_string=True)


class Seek(gdb.Command):
    """Go to a position: seek THREAD/INTERVAL/INSTRUCTION, seek @TIME, seek start, seek end."""

    def __init__(self):
        super().__init__("seek", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        said = monitor("seek " + argument)
        refresh()
        gdb.write(said)
        place = said.split(" ", 1)[0]
        for thread in gdb.selected_inferior().threads():
            if str(thread.ptid[1]) == place.split("/")[0]:
                thread.switch()
        gdb.execute("frame")


class When(gdb.Command):
    """Say where this is: THREAD/INTERVAL/INSTRUCTION and the time, as `seek` and `bugnet at` take them."""

    def __init__(self):
        super().__init__("when", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        gdb.write(monitor("when"))


class LastWrite(gdb.Command):
    """Say what wrote a variable last, before here: last-write EXPRESSION, last-write ADDRESS:N.
`seek` takes the position that it says."""

    def __init__(self):
        super().__init__("last-write", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        where, colon, length = argument.rpartition(":")
        if colon and length.strip().isdigit():
            address = int(gdb.parse_and_eval(where))
        else:
            value = gdb.parse_and_eval(argument)
            if value.address is None:
                raise gdb.GdbError("%s is not in memory" % argument)
            address, length = int(value.address), str(value.type.sizeof)
        gdb.write(monitor("last-write %#x:%s" % (address & (1 << 64) - 1, length.strip())))


# Whatever asks bugnet by itself may have moved.
gdb.execute("define hookpost-monitor\npython refresh()\nend")

Seek()
When()
LastWrite()
