package runs

// matcher searches a text for any of several words, in one pass. It looks up
// every three consecutive bytes in a table, and compares words only after a hit.
type matcher struct {
	words []string // at least three bytes each; in lower case if fold is set
	fold  bool     // ignore the case of ASCII letters
	table [1 << 15 / 64]uint64
}

// newMatcher returns a matcher. A word that begins with a space matches only
// after a digit.
func newMatcher(fold bool, words ...string) *matcher {
	m := &matcher{words: words, fold: fold}
	for _, word := range words {
		h := uint(0)
		for i := range 3 {
			h = h<<5 | uint(word[i]&31) // the same for both cases of a letter
		}
		m.table[h/64] |= 1 << (h % 64)
	}
	return m
}

// index returns the offset of the first word in b, or -1.
func index[T string | []byte](m *matcher, b T) int {
	h := uint(0)
	for i := range len(b) {
		h = (h<<5 | uint(b[i]&31)) & (1<<15 - 1)
		if m.table[h/64]&(1<<(h%64)) != 0 && i >= 2 && wordAt(m, b, i-2) {
			return i - 2
		}
	}
	return -1
}

// wordAt reports whether one of the words begins at offset i.
func wordAt[T string | []byte](m *matcher, b T, i int) bool {
next:
	for _, word := range m.words {
		if len(b)-i < len(word) || word[0] == ' ' && (i == 0 || !isDigit(b[i-1])) {
			continue
		}
		for k := range len(word) {
			c := b[i+k]
			if m.fold && 'A' <= c && c <= 'Z' {
				c |= 0x20
			}
			if c != word[k] {
				continue next
			}
		}
		return true
	}
	return false
}
