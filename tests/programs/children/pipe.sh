#!/bin/sh -e
seq 1 2000 | sort -rn | head -3
./script_of_script 2>/dev/null || echo none
perl -e 'print `echo backticks`; system("echo system"); exit 0'
/usr/bin/python3 -IBc 'import subprocess; print(subprocess.run(["/bin/echo", "py"], capture_output=True).stdout)'
