# Counts words, sums numbers, and prints the commonest words, sorted by insertion.
{
    for (i = 1; i < NF; i++) {
        gsub(/[,;]/, "", $i)
        count[$i]++
    }
    sub(/\.$/, "", $NF)
    sum += $NF
    if ($NF % 7 == 0) sevens = sevens substr($1, 1, 1)
}
END {
    print NR, sum, length(sevens)
    for (word in count) {
        if (count[word] <= NR / 50) continue
        for (i = n++; i > 0 && common[i] > word; i--) common[i + 1] = common[i]
        common[i + 1] = word
    }
    for (i = 1; i <= n; i++) printf "%8d %s\n", count[common[i]], toupper(common[i])
}
