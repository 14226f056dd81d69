# Tests of Python's own that have one thread, and are done soon.
set -e
for t in abc array augassign base64 baseexception binascii binop bisect bool builtin call charmapcodec class cmath cmd codeccallbacks \
    codeop collections colorsys compare complex configparser contains copy copyreg csv dataclasses dbm decorators defaultdict deque \
    descr dict dictviews difflib dis dynamic enumerate eof errno except_star extcall file filecmp fileinput float fnmatch format \
    fractions fstring future genericpath genexps getopt gettext glob global grammar graphlib gzip heapq hmac html htmlparser index \
    inspect int isinstance iter iterlen keyword linecache list listcomps locale marshal memoryview metaclass minidom module \
    named_expressions netrc ntpath numeric_tower opcodes operator optparse ordered_dict patma pipes pkgutil plistlib popen pow \
    posixpath pprint property pstats pwd quopri random range raise re reprlib richcmp sax scope secrets shelve shlex slice sort stat \
    string stringprep strptime struct structseq strtod super syntax tabnanny textwrap timeit tuple typing unary unpack urlparse \
    userdict wave weakset zipapp zipimport; do
    /usr/bin/python3 -m unittest -q "test.test_$t"
done
