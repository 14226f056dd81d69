"""What bugnet teaches gdb: commands that go through time, in gdb's own words."""

import gdb


def monitor(text):
    return gdb.execute("monitor " + text, to_string=True)


# Whether bugnet may have moved since gdb was last told to forget what it remembers.
moved = False


def refresh():
    """The process may be elsewhere: what gdb remembers of it is of no use."""
    global moved
    while moved:
        try:
            forget()
            moved = False
        except KeyboardInterrupt:
            # It was meant for the command behind which this comes.
            pass


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
        gdb.write(said := monitor("seek " + argument))
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


class Asks(gdb.Command):
    """bugnet's own: bugnet is about to be asked, which may move it."""

    def __init__(self):
        super().__init__("bugnet-asks", gdb.COMMAND_MAINTENANCE)

    def invoke(self, argument, from_tty):
        global moved
        moved = True


class Asked(gdb.Command):
    """bugnet's own: bugnet has answered."""

    def __init__(self):
        super().__init__("bugnet-asked", gdb.COMMAND_MAINTENANCE)

    def invoke(self, argument, from_tty):
        refresh()


# Commands of their own, not Python in the hooks: where a Ctrl-C comes too early to be caught, gdb says of a command that it was quit, and
# shows where in the Python otherwise. What it has quit then is done before the next prompt.
Asks()
Asked()
gdb.execute("define hook-monitor\nbugnet-asks\nend")
gdb.execute("define hookpost-monitor\nbugnet-asked\nend")
gdb.events.before_prompt.connect(refresh)

Seek()
When()
LastWrite()
