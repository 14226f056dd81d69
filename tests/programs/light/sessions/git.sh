# A project's history, with no threads.
set -e
export HOME=$PWD GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=pack.threads GIT_CONFIG_VALUE_0=1 GIT_CONFIG_KEY_1=index.threads GIT_CONFIG_VALUE_1=1
git init -q one
cd one
git config user.name x
git config user.email x@x
for i in 1 2 3 4; do
    seq "$i" 40 >"f$i"
    git add .
    git commit -qm "$i"
done
git checkout -qb other HEAD~2
seq 9 >f9
git add .
git commit -qm other
git merge -q --no-edit master
git log --oneline --graph
git blame f3
git diff HEAD~3 --stat
git gc -q
git fsck
cd ..
git clone -q one two
git -C two log --oneline
