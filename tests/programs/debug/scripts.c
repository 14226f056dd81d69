#include <signal.h>

// What this section has, gdb runs when it reads the file, if it trusts the folder that the file is in: Python, Guile, and scripts by name. Once it has
// refused one, it looks anew which folders those are.
__asm__(".pushsection \".debug_gdb_scripts\", \"MS\", @progbits, 1\n"
        ".byte 4\n.ascii \"first\\nimport os; open(os.environ['ESCAPED'], 'w')\\n\"\n.byte 0\n"
        ".byte 4\n.ascii \"second\\nimport os; open(os.environ['ESCAPED'], 'w')\\n\"\n.byte 0\n"
        ".byte 6\n.ascii \"third\\n(open-output-file (getenv \\\"ESCAPED\\\"))\\n\"\n.byte 0\n"
        ".byte 1\n.asciz \"escape.py\"\n"
        ".byte 3\n.asciz \"escape.scm\"\n"
        ".popsection\n");

int main(void)
{
    raise(SIGSEGV);
    return 0;
}
