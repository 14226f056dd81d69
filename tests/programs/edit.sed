s/([a-z]+), ([a-z]+)/\2 and \1/g
s/[0-9]+\.$/<&>/
/ba(re|mo)/{
    h
    s/.*/(&)/
    G
    s/\n/ | /
}
y/qv/QV/
/^m/d
$!N
P
D
