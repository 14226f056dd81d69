# autoconf, and the script that it makes: shells, seds and short compilations.
set -e
cat >configure.ac <<'END'
AC_INIT([x], [1])
AC_PROG_CC
AC_CHECK_FUNCS([fork strlcpy mmap])
AC_CHECK_HEADERS([sys/mman.h])
AC_OUTPUT
END
autoconf
./configure
