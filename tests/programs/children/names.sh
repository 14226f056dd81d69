# What a process is called: a script's name, that of a link, of a file with an odd one; and what /proc/self/exe is.
printf '#!/bin/sh\ncat /proc/$$/comm\n' > a_script_with_a_long_name
chmod +x a_script_with_a_long_name
./a_script_with_a_long_name
ln -s a_script_with_a_long_name linked
./linked
sh -c 'cat /proc/$$/comm; :'
cp /bin/cat 'a cat'
'./a cat' /proc/self/comm
(exec -a other ./a\ cat /proc/self/comm)
ls -l /proc/self/exe | sed 's/.* -> //'
stat -c %F /proc/self/exe
stat -L -c %F /proc/self/exe
rm -f a_script_with_a_long_name linked 'a cat'
