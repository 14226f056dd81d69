# Counts words, sums numbers, and prints the commonest words.
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
    for (word in count) if (count[word] > NR / 50) printf "%8d %s\n", count[word], toupper(word) | "sort"
}
