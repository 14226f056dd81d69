# Pipes, subshells, traps, background jobs, here documents.
trap 'echo exit trap' EXIT
trap 'echo got USR1' USR1
(echo sub; exit 3); echo "status $?"
echo one two three | tr ' ' '\n' | sort | while read -r word; do echo "word $word"; done
count=$(ls / | wc -l); [ "$count" -gt 3 ] && echo many
kill -USR1 $$
(sleep 0.1; exit 4) & wait $!; echo "background $?"
cat <<END
here $((1 + 2))
END
no_such_command 2>/dev/null; echo "missing $?"
for i in 1 2 3; do /bin/echo "turn $i"; done
sh -c 'echo nested | cat | cat'
exec /bin/echo last
