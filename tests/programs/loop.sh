# A loop of shell builtins. Argument: turns.
declare -A seen
declare -a list
sum=0
for ((i = 0; i < $1; i++)); do
    word=item$((i * 7919 % 1000))
    seen[$word]=$((${seen[$word]:-0} + i))
    list+=("$word")
    case $word in
    *7) sum=$((sum + i)) ;;
    item1*) sum=$((sum - ${#word})) ;;
    esac
    [[ $word =~ ^item([0-9]+)5$ ]] && sum=$((sum + BASH_REMATCH[1]))
    printf -v line '%s:%05d' "${word//item/x}" "$i"
    ((i % 500)) || echo "$line $sum"
done
echo "${#seen[@]} ${#list[@]} $sum ${list[*]:10:5}"
read -r first rest <<<"${list[*]:0:20}"
echo "$first|${rest^^}"
