"""The developer's own scripts for the libraries of a recording: pretty printers, xmethods and more. gdb finds them by the path of a library's file, which is
another one here. They come from this system, never from the log; only the name of a file in the log chooses among them."""

import mmap
import os
import re
import subprocess
import sys

import gdb
import gdb.unwinder

# Scripts by the name of the file that they are for, those first that gdb itself would take.
scripts = {}
data = os.path.join(gdb.parameter("data-directory"), "auto-load")
for folder in dict.fromkeys((data, "/usr/share/gdb/auto-load", "/usr/local/share/gdb/auto-load")):
    for below, _, names in os.walk(folder):
        for name in sorted(names, reverse=True):
            if name.endswith("-gdb.py"):
                scripts.setdefault(name[: -len("-gdb.py")], (folder, os.path.join(below, name)))

# The file of a language's script, as a program names it that was built with debug information, and what tells where it lies.
LANGUAGES = {
    b"gdb_load_rust_pretty_printers.py": (["rustc", "--print", "sysroot"], "lib/rustlib/etc/gdb_load_rust_pretty_printers.py"),
    b"runtime/runtime-gdb.py": (["go", "env", "GOROOT"], "src/runtime/runtime-gdb.py"),
}

loaded = set()


class Owner:
    """What a script takes for the file that it belongs to."""

    def __init__(self, filename):
        self.filename = self.username = filename
        self.pretty_printers, self.type_printers, self.xmethods, self.frame_filters = [], [], [], {}
        self.progspace = gdb.current_progspace()

    def is_valid(self):
        return True

    def hand_over(self):
        """What was registered for the file is there for all files."""
        gdb.pretty_printers[:0] = self.pretty_printers
        gdb.type_printers[:0] = self.type_printers
        gdb.xmethods[:0] = self.xmethods
        gdb.frame_filters.update(self.frame_filters)


def run(script, filename):
    """Runs a script of the developer's for a file that would lie there on this system."""
    if script in loaded:
        return
    loaded.add(script)
    owner = Owner(filename)
    current, register = gdb.current_objfile, gdb.unwinder.register_unwinder
    gdb.current_objfile = lambda: owner
    gdb.unwinder.register_unwinder = lambda locus, *more, **named: register(None if locus is owner else locus, *more, **named)
    sys.path.insert(0, os.path.dirname(script))
    try:
        with open(script) as text:
            exec(compile(text.read(), script, "exec"), {"__name__": "__main__", "__file__": script})
        owner.hand_over()
    except Exception as why:
        gdb.write("bugnet: %s cannot be used: %s\n" % (script, why), gdb.STDERR)
    finally:
        sys.path.remove(os.path.dirname(script))
        gdb.current_objfile, gdb.unwinder.register_unwinder = current, register


def of_library(name):
    """The script for a file of this name, or for another version of the same library."""
    if name in scripts:
        return scripts[name]
    library = re.match(r".*\.so\.\d+", name)
    others = [other for other in scripts if library and re.fullmatch(re.escape(library[0]) + r"[.\d]*", other)]
    return scripts[max(others)] if others else None


def ask(command):
    try:
        asked = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, text=True)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""


def of_languages(path):
    """Runs the scripts of the languages that a file is written in."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as bytes:
            named = [name for name in LANGUAGES if bytes.find(name) >= 0]
    except (OSError, ValueError):
        return
    for name in named:
        command, below = LANGUAGES.pop(name)
        root = ask(command)
        script = os.path.join(root, below)
        if root and os.path.isfile(script):
            run(script, path)
        sources, commit = os.path.join(root, "lib/rustlib/src/rust"), ask(["rustc", "-vV"]) if b"rust" in name else ""
        commit = re.search(r"^commit-hash: (\w+)$", commit, re.M)
        if commit and os.path.isdir(sources):
            gdb.execute("set substitute-path /rustc/%s %s" % (commit[1], sources), to_string=True)


def comes(objfile):
    path = objfile.filename
    if not path or path.startswith("system-supplied") or path in loaded:
        return
    loaded.add(path)
    found = of_library(os.path.basename(path))
    if found:
        folder, script = found
        run(script, script[len(folder) : -len("-gdb.py")])
    else:
        of_languages(path)


gdb.events.new_objfile.connect(lambda event: comes(event.new_objfile))
for objfile in gdb.objfiles():
    comes(objfile)
