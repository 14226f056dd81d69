"""What bugnet teaches gdb's debug adapter, for editors: a recording is there to be attached to, time goes both ways, and nothing can be
changed. It stands on `gdb.dap`, which gdb 14 and newer have. BUGNET is the socket at which bugnet waits."""

import importlib

import gdb
from gdb.dap import breakpoint as breakpoints
from gdb.dap import events, frames, globalvars, scopes, varref
from gdb.dap.startup import DAPException

# In the package, its name is the running server's.
server = importlib.import_module("gdb.dap.server")

# The names by which an editor asks, and what can be asked for, by name.
requests, capabilities = server._commands, server._capabilities

# An editor's configuration may say launch or attach: the recording is the process.
attach = requests["attach"]


def attach_to_recording(**args):
    return attach(target=BUGNET)


requests["attach"] = requests["launch"] = attach_to_recording

# What bugnet refuses is not offered.
for name in ("supportsSetVariable", "supportsSetExpression", "supportsWriteMemoryRequest"):
    capabilities.pop(name, None)


def of_thread(number):
    """gdb's thread of this number becomes the one that moves."""
    for thread in gdb.selected_inferior().threads():
        if thread.global_num == number:
            thread.switch()
            return
    raise DAPException("there is no thread %d here" % number)


@server.capability("supportsStepBack")
@server.request("stepBack", response=False)
def step_back(*, threadId: int, granularity: str = "statement", **args):
    of_thread(threadId)
    events.exec_and_expect_stop("reverse-stepi" if granularity == "instruction" else "reverse-next")


@server.request("reverseContinue")
def reverse_continue(*, threadId: int, **args):
    of_thread(threadId)
    events.exec_and_expect_stop("reverse-continue &")


# By what editors call them.
ACCESSES = {"read": gdb.WP_READ, "write": gdb.WP_WRITE, "readWrite": gdb.WP_ACCESS}
data_breakpoints = []


@server.request("dataBreakpointInfo")
def data_breakpoint_info(*, name: str, variablesReference: int = 0, frameId: int = -1, **args):
    if variablesReference > 0:
        child = varref.find_variable(variablesReference).find_child_by_name(name)
        # gdb 16 has another name for it.
        value = child._value if hasattr(child, "_value") else child.value
    else:
        if frameId >= 0:
            frames.select_frame(frameId)
        value = gdb.parse_and_eval(name)
    if value.address is None:
        return {"dataId": None, "description": "%s is not in memory" % name}
    size, address = value.type.sizeof, int(value.address)
    return {
        "dataId": "*(char (*)[%d]) %#x" % (size, address),
        "description": "%s, %d bytes at %#x" % (name, size, address),
        "accessTypes": list(ACCESSES),
        "canPersist": False,
    }


@server.capability("supportsDataBreakpoints")
@server.request("setDataBreakpoints")
def set_data_breakpoints(*, breakpoints: list, **args):
    return {"breakpoints": watch_all(breakpoints)}


def watch_all(wanted):
    """All of an editor's are set each time."""
    while data_breakpoints:
        data_breakpoints.pop().delete()
    return [watch(**one) for one in wanted]


def watch(dataId, accessType="write", condition=None, hitCondition="0", **_):
    try:
        with breakpoints.suppress_new_breakpoint_event():
            made = gdb.Breakpoint(dataId, gdb.BP_WATCHPOINT, ACCESSES[accessType])
            data_breakpoints.append(made)
            made.condition = condition
            made.ignore_count = int(gdb.parse_and_eval(hitCondition))
        return {"verified": True, "id": made.number}
    except (gdb.error, KeyError) as error:
        return {"verified": False, "message": str(error)}


class EditorSeek(Seek):
    """Go to a position: seek THREAD/INTERVAL/INSTRUCTION, seek @TIME, seek start, seek end."""

    def invoke(self, argument, from_tty):
        super().invoke(argument, from_tty)
        # What the editor was told of the place before is no longer so, as after a run.
        for forget in (frames._clear_frame_ids, globalvars.clear, scopes.clear_scopes, varref.clear_vars):
            forget(None)
        stopped = {"reason": "goto", "threadId": gdb.selected_thread().global_num, "allThreadsStopped": True}
        server.send_event("stopped", stopped)


EditorSeek()

# It has come to its end: see who starts gdb.
READY = True
