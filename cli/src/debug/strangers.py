"""What gdb does not do with the files of a recording, which is a stranger's: run what they name or bring along."""

import gdb

# Scripts, in a section of a file or beside it, and libraries that know of threads. A gdb that was built without one of these does not know the word.
for what in ("python-scripts", "guile-scripts", "gdb-scripts", "libthread-db"):
    try:
        gdb.execute("set auto-load %s off" % what)
    except gdb.error:
        pass

# Whoever turns that on again trusts the folders that they trusted before. gdb has the folder of debug files among them, whichever that is when it looks.
trusted = gdb.parameter("auto-load safe-path").replace("$debugdir", gdb.parameter("debug-file-directory"))
gdb.execute("set auto-load safe-path " + trusted)
