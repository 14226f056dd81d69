import words

POEM = "the honorificabilitudinitatibus of words is found in a play of long ago".split()
print(words.lengths(POEM))
