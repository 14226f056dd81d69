import words

POEM = "many misunderstandings of words are found in a play of long ago".split()
print(words.lengths(POEM))
